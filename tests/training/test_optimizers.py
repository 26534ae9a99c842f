"""Every optimizer of torch.optim, by PyTorch's own descriptions of them (OptimizerInfo), in each of
its implementations: parameters and state after some steps are the CPU's."""

import pytest
import torch
from torch.testing._internal.common_optimizers import OptimizerInfo, optim_db
from torch.utils._pytree import tree_leaves

STEPS = 4

#: SparseAdam takes sparse gradients only, which do not exist on the device.
ALL = {i.optim_cls.__name__: i for i in optim_db if not i.only_supports_sparse_grads}


def implementations(info: OptimizerInfo) -> list[dict]:
    out = [{"foreach": False}] if "foreach" in info.supported_impls else [{}]
    out += [{name: True} for name in ("foreach", "fused") if name in info.supported_impls]
    if info.has_capturable_arg:
        out += [{**flags, "capturable": True} for flags in out if "fused" not in flags]
    return out


CASES = {
    f"{name}-{'-'.join(k for k, v in flags.items() if v) or 'single'}": (info, flags)
    for name, info in ALL.items()
    for flags in implementations(info)
}


def train(info: OptimizerInfo, kwargs: dict, device: str) -> list[torch.Tensor]:
    """Parameters, then what is a tensor of the state."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(4, 3), (3, 5)] if info.optim_cls is torch.optim.Muon else [(4, 3), (5,), (2, 3, 2)]
    params = [torch.randn(s, generator=generator).to(device).requires_grad_() for s in shapes]
    targets = [torch.randn(s, generator=generator).to(device) for s in shapes]
    optimizer = info.optim_cls(params, **kwargs)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = sum(
            ((p - t).square() * (t.square() + 1)).sum()
            for p, t in zip(params, targets, strict=True)
        )
        loss.backward()
        return loss

    for _ in range(STEPS):
        if info.step_requires_closure:
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
    # The state of LBFGS is differences of nearly equal gradients: all noise, once it has converged.
    state = tree_leaves(optimizer.state_dict()["state"]) if not info.step_requires_closure else []
    return [*params, *(x for x in state if isinstance(x, torch.Tensor))]


@pytest.mark.parametrize("case", CASES)
def test_optimizer(case):
    info, flags = CASES[case]
    for given in info.optim_inputs_func(device="cpu"):
        kwargs = {k: v for k, v in given.kwargs.items() if k not in ("foreach", "fused")}
        if kwargs.get("differentiable"):
            continue
        torch.tpu.reset_counters()
        reference = {k: v for k, v in kwargs.items() if k != "capturable"}
        want = train(info, reference, "cpu")
        got = train(info, {**kwargs, **flags}, "tpu")
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(g.detach().cpu(), w.detach())
        assert torch.tpu.fallback_ops() == {}, given.desc
