"""The Dynamo backend "tpu".

Dynamo's graph goes through AOTAutograd, which makes it functional, adds the backward graph and
splits the two where the least is to be kept. What comes out is captured: see ``graph.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition

from torch_tpu.compiler.graph import Graph, device_of

_MODES = (
    None,
    "default",
    "reduce-overhead",
    "max-autotune",
    "max-autotune-no-cudagraphs",
)
_OPTIONS = {"one_program": False}


def tpu(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compiles a graph of Dynamo for the tpu device.

    Args:
        gm: the graph.
        example_inputs: its arguments, as fake tensors.
        mode: any mode of ``torch.compile``. All mean the same here: a graph is always one program.
        options: ``{"one_program": True}`` raises an error where a part of the graph has to run
            operator by operator, because it needs values on the host. The default runs that part
            eagerly.

    Raises:
        ValueError: a mode or an option that does not exist.
    """
    if mode not in _MODES:
        raise ValueError(f"mode={mode!r}: torch.compile has {', '.join(map(repr, _MODES[1:]))}")
    chosen = dict(_OPTIONS)
    for name, value in (options or {}).items():
        if name not in _OPTIONS:
            raise ValueError(f"option {name!r}: the tpu backend has {', '.join(_OPTIONS)}")
        chosen[name] = value
    if device_of(gm, example_inputs) is None:
        return gm.forward  # a graph of CPU tensors: there is nothing to do for this backend

    def compiler(kind: str) -> Callable[..., Any]:
        def compile_graph(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            device = device_of(graph, inputs)
            if device is None:
                return _boxed(lambda values: graph(*values))
            return _boxed(Graph(graph, kind, device, one_program=chosen["one_program"]).run)

        return compile_graph

    return aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )(gm, example_inputs)


def _boxed(function: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    """As AOTAutograd calls graphs: with a list that is emptied, so that arguments may die."""

    def run(args: list[Any]) -> Any:
        values = list(args)
        args.clear()
        return function(values)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run
