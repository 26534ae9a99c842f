"""Every module of torch.nn, by PyTorch's own descriptions of them (ModuleInfo): results, and the
gradients of parameters and inputs, are the CPU's, and nothing runs on the CPU."""

import copy

import pytest
import torch
from opinfo_runner import DEVICE, DifferenceError, copy_to, same
from torch.testing._internal.common_modules import ModuleInfo, ModuleInput, module_db
from torch.utils._pytree import tree_leaves

#: Of each module, spread over all of its inputs.
INPUTS = 3

ALL = {info.name.removeprefix("nn."): info for info in module_db if not info.is_lazy}

#: Random in training: only dtypes and shapes are compared.
RANDOM = {"RReLU"}

#: (rtol, atol) beyond those of the dtype: that of OpInfo for conv_transpose3d.
LIMITS = {"ConvTranspose3d": (2e-4, 2e-4)}


def inputs_of(info: ModuleInfo, training: bool) -> list[ModuleInput]:
    torch.manual_seed(0)
    drawn = info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
    )
    count = min(INPUTS, len(drawn))
    return [drawn[i * (len(drawn) - 1) // max(count - 1, 1)] for i in range(count)]


def results_of(module: torch.nn.Module, given: ModuleInput, device: str) -> list[torch.Tensor]:
    """Results, gradients and buffers after a call and its backward."""
    module = copy.deepcopy(module).to(device, torch.float32)
    args, kwargs = copy_to((given.forward_input.args, given.forward_input.kwargs), device)
    torch.manual_seed(1)
    results = [x for x in tree_leaves(module(*args, **kwargs)) if isinstance(x, torch.Tensor)]
    outs = [x for x in results if x.requires_grad]
    leaves = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    leaves = [x for x in [*leaves, *module.parameters()] if x.requires_grad]
    grads = []
    if outs and leaves:
        generator = torch.Generator().manual_seed(7)
        weights = [torch.randn(x.shape, generator=generator).to(device, x.dtype) for x in outs]
        grads = torch.autograd.grad(outs, leaves, weights, allow_unused=True)
    return [*results, *(g for g in grads if g is not None), *module.buffers()]


#: Modules in training, and those that differ then in evaluation too.
CASES = [(name, True) for name in ALL]
CASES += [(name, False) for name, info in ALL.items() if info.train_and_eval_differ]


@pytest.mark.parametrize(
    ("name", "training"),
    CASES,
    ids=[f"{name}-{'training' if training else 'evaluating'}" for name, training in CASES],
)
def test_module(name, training):
    info = ALL[name]
    torch.tpu.reset_counters()
    for given in inputs_of(info, training):
        torch.manual_seed(0)
        constructor = given.constructor_input
        module = info.module_cls(*constructor.args, **constructor.kwargs).train(training)
        want = results_of(module, given, "cpu")
        got = results_of(module, given, DEVICE)
        try:
            same(got, want, LIMITS.get(name, (0.0, 0.0)), values=name not in RANDOM or not training)
        except DifferenceError as error:
            pytest.fail(f"{name} {given.desc}: {error}")
    assert torch.tpu.fallback_ops() == {}
