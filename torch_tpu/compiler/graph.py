"""Graphs that run as one program.

A graph is captured at its first call: it is run on placeholders, whose operators the engine records
instead of running them. They become one program, by the same lowerings as everywhere. Arguments of
another geometry are captured anew.

A graph that needs a value on the host in its middle cannot be one program. Then the node that needs
it runs by itself, and what lies before and after it are programs.
"""

from __future__ import annotations

import contextlib
import logging
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx.passes.split_module import split_module
from torch.utils._python_dispatch import _disable_current_modes

from torch_tpu._load import C
from torch_tpu._recording import recorded

log = logging.getLogger(__name__)


class GraphError(RuntimeError):
    """A graph that cannot be one program, where ``one_program`` demands it."""


def device_of(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> torch.device | None:
    """The tpu device of a graph's tensors; None if there is none."""
    for value in inputs:
        if isinstance(value, torch.Tensor) and value.device.type == "tpu":
            return value.device
    for node in gm.graph.nodes:
        value = node.meta.get("val", node.meta.get("example_value"))
        if isinstance(value, torch.Tensor) and value.device.type == "tpu":
            return value.device
        device = node.kwargs.get("device")
        if device is not None and torch.device(device).type == "tpu":
            return torch.device(device)
    return None


class Graph:
    """A graph of aten operators."""

    def __init__(
        self, gm: torch.fx.GraphModule, kind: str, device: torch.device, *, one_program: bool
    ) -> None:
        self._set = _take_out_set(gm)
        self._gm = gm
        self._kind = kind
        self._device = device
        self._one_program = one_program
        self._pieces: torch.fx.GraphModule | None = None
        self._constants: dict[str, torch.Tensor] | None = None
        placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
        exact = [_is_restrided(node) for node in placeholders]
        index = device.index if device.index is not None else torch.tpu.current_device()
        self._program = C.Graph(kind, exact, index)
        self._on_host = _host_results(gm)
        self.gives_one = isinstance(_output_of(gm), torch.fx.Node)

    def run(self, values: list[Any]) -> Any:
        """The results for these arguments. The list becomes the graph's."""
        if self._constants is None:
            self._constants = _constants_of(self._gm, self._device)
        results = None
        if self._pieces is None:
            values += self._constants.values()
            results = self._program.run(values)
            if results is None and self._capture(values):
                results = self._program.run(values)
            del values[len(values) - len(self._constants) :]
        if results is None:
            with torch.no_grad():
                results = self._pieces(*values)
            results = [results] if self.gives_one else list(results)
        return self._settled(results, values)

    def _settled(self, results: list[Any], values: list[Any]) -> list[Any]:
        """The results as the caller gets them, after what the program itself could not do."""
        for i in self._on_host:
            results[i] = results[i].cpu()
        if self._set:
            for argument, memory in zip(self._set, results[-len(self._set) :], strict=True):
                values[argument].set_(memory)
            del results[-len(self._set) :]
        return results

    def _capture(self, values: list[Any]) -> bool:
        """Makes the program for arguments like these; False if the graph is in pieces now."""
        capture = C.Capture(self._program, values)
        replay = Replay(self._gm, self._device, self._constants)
        try:
            with _as_recorded(capture):
                results = replay.run(*_given(capture.placeholders(), values))
                results = [results] if self.gives_one else list(results)
                for i, value in enumerate(results):
                    if isinstance(value, torch.Tensor) and value.device.type != "tpu":
                        results[i] = value.to(self._device)
                capture.finish(results)
        except Exception as error:
            problem = capture.problem()
            if not problem and not isinstance(error, NotImplementedError):
                raise
            self._split(replay.current, problem or str(error))
            return False
        return True

    def _split(self, at: torch.fx.Node | None, problem: str) -> None:
        """Lets this node run by itself, between two graphs."""
        where = "" if at is None else f" at {at.target}"
        if self._one_program:
            raise GraphError(f"this graph cannot be one program: {problem}{where}")
        log.warning("the %s graph runs in pieces%s: %s", self._kind, where, problem)
        if at is None:
            self._pieces = self._gm
            return
        part = {}
        for node in self._gm.graph.nodes:
            part[node] = 2 if at in part else 0
            # A node that gives several results takes those that pick them along.
            if node is at or (node.target is operator.getitem and node.args[0] is at):
                part[node] = 1
        pieces = split_module(self._gm, self._gm, part.__getitem__, keep_original_order=True)
        for name, child in list(pieces.named_children()):
            if name in ("submod_0", "submod_2"):
                graph = Graph(child, self._kind, self._device, one_program=False)
                setattr(pieces, name, _Piece(graph))
        self._pieces = pieces


class _Piece(torch.nn.Module):
    """A part of a graph in pieces."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph

    def forward(self, *args: Any) -> Any:
        results = self.graph.run(list(args))
        return results[0] if self.graph.gives_one else tuple(results)


class Replay(torch.fx.Interpreter):
    """Runs a graph on the placeholders of a capture."""

    def __init__(
        self,
        gm: torch.fx.GraphModule,
        device: torch.device,
        constants: dict[str, torch.Tensor],
    ) -> None:
        super().__init__(gm, garbage_collect_values=True)
        self.current: torch.fx.Node | None = None
        self._device = device
        self._constants = dict.fromkeys(constants)

    def run(self, *args: Any) -> Any:
        count = len(self._constants)
        if count:
            self._constants = dict(zip(self._constants, args[-count:], strict=True))
            args = args[:-count]
        return super().run(*args, enable_io_processing=False)

    def run_node(self, node: torch.fx.Node) -> Any:
        self.current = node
        return super().run_node(node)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        constant = self._constants.get(target)
        return super().get_attr(target, args, kwargs) if constant is None else constant

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        # All of the graph is on the device, also what was to be on the CPU.
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": self._device}
        args = tuple(self._device if isinstance(a, torch.device) else a for a in args)
        return super().call_function(target, args, kwargs)


def _given(placeholders: list[torch.Tensor | None], values: list[Any]) -> list[Any]:
    """The arguments with placeholders for tensors."""
    return [v if p is None else p for p, v in zip(placeholders, values, strict=True)]


@contextlib.contextmanager
def _as_recorded(capture: Any) -> Iterator[None]:
    with (
        torch.no_grad(),
        _disable_current_modes(),
        torch._C._DisableAutocast(),
        recorded(capture),
    ):
        yield


def _take_out_set(gm: torch.fx.GraphModule) -> list[int]:
    """Takes `set_` of arguments out of the graph, and adds the tensors whose memory they get to its
    results. Gives the positions of these arguments."""
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    nodes = [
        node
        for node in gm.graph.nodes
        if node.target is torch.ops.aten.set_.source_Tensor and node.args[0] in placeholders
    ]
    if not nodes:
        return []
    (output,) = gm.graph.find_nodes(op="output")
    results = output.args[0]
    sources = [node.args[1] for node in nodes]
    output.args = ((*results, *sources),)
    arguments = [placeholders.index(node.args[0]) for node in nodes]
    for node in nodes:
        gm.graph.erase_node(node)
    gm.recompile()
    return arguments


def _constants_of(gm: torch.fx.GraphModule, device: torch.device) -> dict[str, torch.Tensor]:
    """Tensors that the graph holds itself, on the device."""
    constants = {}
    for node in gm.graph.nodes:
        if node.op != "get_attr" or node.target in constants:
            continue
        value = gm
        for name in node.target.split("."):
            value = getattr(value, name)
        if isinstance(value, torch.Tensor):
            constants[node.target] = value.detach().to(device)
    return constants


def _is_restrided(placeholder: torch.fx.Node) -> bool:
    """True if the graph looks at the memory of this argument, not only at its values."""
    return any(
        getattr(user.target, "_schema", None) is not None
        and user.target._schema.name in ("aten::as_strided", "aten::as_strided_", "aten::set_")
        for user in placeholder.users
    )


def _output_of(gm: torch.fx.GraphModule) -> Any:
    (output,) = [node for node in gm.graph.nodes if node.op == "output"]
    return output.args[0]


def _host_results(gm: torch.fx.GraphModule) -> list[int]:
    """Positions of the results that are to be on the CPU."""
    results = _output_of(gm)
    nodes = results if isinstance(results, (tuple, list)) else [results]
    values = [n.meta.get("val") if isinstance(n, torch.fx.Node) else None for n in nodes]
    return [
        i for i, v in enumerate(values) if isinstance(v, torch.Tensor) and v.device.type == "cpu"
    ]
