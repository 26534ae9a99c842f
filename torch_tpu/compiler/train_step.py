"""A whole training step as one program: forward, backward and the optimizer's update."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from torch_tpu._load import C
from torch_tpu._recording import recorded


def train_step(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_fn: Callable[..., Any],
    *,
    after_backward: Callable[[], Any] | None = None,
) -> TrainStep:
    """A function that does a training step on a batch, as one program::

        step = torch_tpu.compiler.train_step(model, optimizer, loss_fn)
        for x, y in batches:
            loss = step(x, y)

    The program updates parameters, buffers and the optimizer's states in place. The first call runs
    eagerly, so that these exist; the second compiles. Sizes that change compile again. Numbers that
    change, such as a scheduled learning rate, compile once more at their first change.

    Args:
        model: the model, on the tpu device.
        optimizer: its optimizer. Its step counts go to the device (``capturable=True``).
        loss_fn: called as ``loss_fn(model, *batch)``. Returns the loss, or a tuple, list or dict
            whose first tensor is the loss.
        after_backward: called between backward and the update, such as for clipping gradients.

    Nothing in the step may need a value on the host: no ``item()``, no ``print``. Python numbers
    and CPU tensors that the step reads are constants, but for those of the optimizer's
    param_groups. After a step the gradients are None.

    Raises:
        ValueError: an optimizer that keeps step counts on the host.
        RuntimeError: the step needs a value on the host.
    """
    return TrainStep(model, optimizer, loss_fn, after_backward)


class TrainStep:
    """See :func:`train_step`."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        loss_fn: Callable[..., Any],
        after_backward: Callable[[], Any] | None,
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._loss_fn = loss_fn
        self._after_backward = after_backward
        self._graph: Any = None
        self._settings: dict[Any, int] = {}
        self._results: dict[int, TreeSpec] = {}

    def __call__(self, *batch: Any) -> Any:
        """Does a step. Gives what ``loss_fn`` returns, detached."""
        if self._graph is None:
            return self._first(batch)
        leaves, spec = tree_flatten(batch)
        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        constants = [None if isinstance(x, torch.Tensor) else x for x in leaves]
        setting = self._number_of((spec, tuple(constants), *self._switches()))
        args = [*tensors, setting, *self._numbers()]
        results = self._graph.run(args)
        if results is None:
            self._capture(args, len(tensors), constants, spec, setting)
            results = self._graph.run(args)
        return tree_unflatten(results, self._results[setting])

    def _first(self, batch: tuple[Any, ...]) -> Any:
        """The eager step, which makes the states that the program will update."""
        _count_on_device(self._optimizer)
        results = self._step(batch)
        for state in self._optimizer.state.values():
            for name, value in state.items():
                if isinstance(value, torch.Tensor) and value.device.type == "cpu":
                    raise ValueError(
                        f"{type(self._optimizer).__name__} keeps {name!r} on the host, where a "
                        "program cannot update it: use an optimizer that has capturable=True"
                    )
        device = next(self._model.parameters()).device
        self._graph = C.Graph("train_step", [], device.index)
        return results

    def _step(self, batch: tuple[Any, ...]) -> Any:
        self._optimizer.zero_grad(set_to_none=True)
        results, spec = tree_flatten(self._loss_fn(self._model, *batch))
        results[0].backward()
        if self._after_backward is not None:
            self._after_backward()
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        detached = [x.detach() if isinstance(x, torch.Tensor) else x for x in results]
        return tree_unflatten(detached, spec)

    def _capture(
        self, args: list[Any], count: int, constants: list[Any], spec: TreeSpec, setting: int
    ) -> None:
        capture = C.Capture(self._graph, args, adopts=True)
        given = iter(capture.placeholders()[:count])
        batch = [next(given) if value is None else value for value in constants]
        try:
            with recorded(capture):
                results, self._results[setting] = tree_flatten(
                    self._step(tree_unflatten(batch, spec))
                )
                capture.finish(results)
        finally:
            self._optimizer.zero_grad(set_to_none=True)

    def _switches(self) -> Iterator[Any]:
        """What decides the program and is no number of the optimizer."""
        for module in self._model.modules():
            yield module.training
        for group in self._optimizer.param_groups:
            for name, value in group.items():
                if name != "params" and not isinstance(value, (float, torch.Tensor)):
                    yield value
        # Whose memory the program updates.
        for p in self._model.parameters():
            yield p.data_ptr()
            yield p.requires_grad
        for b in self._model.buffers():
            yield b.data_ptr()
        for state in self._optimizer.state.values():
            for value in state.values():
                if isinstance(value, torch.Tensor):
                    yield value.data_ptr()

    def _numbers(self) -> Iterator[float]:
        """Numbers of the optimizer that may change from step to step."""
        for group in self._optimizer.param_groups:
            for name, value in group.items():
                if name != "params" and isinstance(value, float):
                    yield value
                elif isinstance(value, torch.Tensor) and value.device.type == "cpu":
                    yield value.item()

    def _number_of(self, setting: tuple[Any, ...]) -> int:
        return self._settings.setdefault(setting, len(self._settings))


def _count_on_device(optimizer: torch.optim.Optimizer) -> None:
    """Lets the optimizer count its steps on the device, where it can."""
    for group in optimizer.param_groups:
        if "capturable" not in group:
            continue
        group["capturable"] = True
        for p in group["params"]:
            step = optimizer.state.get(p, {}).get("step")
            if isinstance(step, torch.Tensor):
                optimizer.state[p]["step"] = step.to(p.device)
