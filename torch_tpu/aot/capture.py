"""Captures a model, or a step of its training, as a program, without memory for its tensors."""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

from torch_tpu._load import C
from torch_tpu._recording import recorded
from torch_tpu.aot.world import Collective, take_collectives, world_of


@dataclasses.dataclass(frozen=True)
class Program:
    """A program that no compiler has seen."""

    text: str
    """StableHLO."""
    held: dict[str, int]
    """Bytes of its inputs by kind: parameters, buffers, optimizer, inputs. Of one device."""
    num_devices: int = 1
    """Devices that run it, each a replica."""
    collectives: tuple[Collective, ...] = ()


def capture(
    model: torch.nn.Module | Callable[..., Any],
    example_inputs: Sequence[Any],
    *,
    loss_fn: Callable[..., torch.Tensor] | None = None,
    optimizer: Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer] | None = None,
    parallelize: Callable[[torch.nn.Module], torch.nn.Module | None] | None = None,
    num_devices: int = 1,
) -> Program:
    """The program of ``model(*example_inputs)``; with `optimizer`, of a training step.

    Args:
        model: a module on any device, "meta" included, or a function of tensors. It is not changed.
        example_inputs: its arguments. Of tensors only shape, strides and dtype matter.
        loss_fn: the loss of the model's output. The default takes the output itself, or its
            attribute ``loss``.
        optimizer: makes the optimizer from the parameters, such as
            ``lambda p: torch.optim.AdamW(p, lr=1e-3, capturable=True)``. The program is that of a
            later step, when the optimizer's states exist.
        parallelize: shards or wraps the model for several devices, by FSDP2 (``fully_shard``),
            DTensor (``parallelize_module``), DistributedDataParallel or collectives of its own. It
            is called with a copy of the model, in a process group of `num_devices` ranks (of which
            this process is rank 0) for meshes such as ``init_device_mesh("tpu", (8,))``, and gives
            the model to run, or None for the same. `example_inputs` are those of one device.
        num_devices: how many run the program; more than one needs `parallelize`.

    Raises:
        ValueError: the loss is no single number, or `optimizer` or `parallelize` is given for a
            plain function.
        RuntimeError: the model needs a tensor's values on the host while it runs.
    """
    if not isinstance(model, torch.nn.Module) and (optimizer or parallelize):
        raise ValueError("to train or to shard it, the model must be a torch.nn.Module")
    if num_devices > 1 and parallelize is None:
        raise ValueError(f"a program for {num_devices} devices needs `parallelize`")
    if parallelize is None:
        return _capture(model, example_inputs, loss_fn, optimizer)
    with world_of(num_devices):
        program = _capture(model, example_inputs, loss_fn, optimizer, parallelize)
    return dataclasses.replace(program, num_devices=num_devices)


def _capture(
    model: torch.nn.Module | Callable[..., Any],
    example_inputs: Sequence[Any],
    loss_fn: Callable[..., torch.Tensor] | None,
    optimizer: Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer] | None,
    parallelize: Callable[[torch.nn.Module], torch.nn.Module | None] | None = None,
) -> Program:
    device = C.AbstractDevice()
    with recorded(device):
        model = _abstract_module(model)
        if parallelize is not None:
            model = parallelize(model) or model
            device.forget()
            take_collectives()
        inputs = tree_map(_abstract, tuple(example_inputs))
        held = _held("inputs", tree_flatten(inputs)[0])
        if isinstance(model, torch.nn.Module):
            held |= _held("buffers", model.buffers())
            held |= _held("parameters", model.parameters())
        if optimizer is None:
            with torch.no_grad():
                results = tree_flatten(model(*inputs))[0]
        else:
            update = optimizer(model.parameters())
            _step(model, update, inputs, loss_fn)  # makes the states
            device.forget()
            take_collectives()
            held |= _held("optimizer", _states(update))
            results = [_step(model, update, inputs, loss_fn)]
        outputs = [_whole(_local(x)) for x in results if isinstance(x, torch.Tensor)]
        given = [tensor for tensor, _ in held.values()]
        name = "train_step" if optimizer is not None else "forward"
        text, operands = device.lower(given, [x for x in outputs if _key(x) not in held], name)
    kinds = [kind for _, kind in held.values()]
    size = Counter[str](dict.fromkeys(("parameters", "buffers", "optimizer", "inputs"), 0))
    for operand in operands:
        if operand >= 0:
            size[kinds[operand]] += given[operand].untyped_storage().nbytes()
    return Program(text.decode(), dict(size), collectives=tuple(take_collectives()))


def _local(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a DTensor that this device has; any other tensor as it is."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _abstract(value: Any) -> Any:
    """A tensor like this one, without memory; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="tpu")
    return made.requires_grad_(value.requires_grad)


def _abstract_module(model: Any) -> Any:
    """A copy of the module whose parameters and buffers have no memory. Tied ones stay tied."""
    if not isinstance(model, torch.nn.Module):
        return model
    memo: dict[int, Any] = {}
    for parameter in model.parameters():
        made = _abstract(parameter.detach())
        memo[id(parameter)] = torch.nn.Parameter(made, parameter.requires_grad)
    for buffer in model.buffers():
        memo[id(buffer)] = _abstract(buffer)
    return copy.deepcopy(model, memo)


def _step(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    inputs: tuple[Any, ...],
    loss_fn: Callable[..., torch.Tensor] | None,
) -> torch.Tensor:
    output = model(*inputs)
    loss = loss_fn(output) if loss_fn is not None else getattr(output, "loss", output)
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        raise ValueError(
            "a training step needs a loss: the model's output is no single number and has no "
            "attribute 'loss'; give loss_fn, which makes the loss of the output"
        )
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()


def _states(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    for state in optimizer.state.values():
        yield from (value for value in state.values() if isinstance(value, torch.Tensor))


def _key(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _held(kind: str, values: Iterable[Any]) -> dict[int, tuple[torch.Tensor, str]]:
    """Tensors on the device by their storage."""
    tensors = (_local(x.detach()) for x in values if isinstance(x, torch.Tensor))
    return {_key(tensor): (tensor, kind) for tensor in tensors if tensor.device.type == "tpu"}


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in memory of its own, if it is a part of something bigger."""
    bigger = tensor.untyped_storage().nbytes() > tensor.numel() * tensor.element_size()
    return tensor.clone() if bigger else tensor
