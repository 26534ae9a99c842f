"""Compiles a captured program with libtpu, in a process of its own."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from torch_tpu import _plugin
from torch_tpu.aot import report
from torch_tpu.aot.capture import Program, capture
from torch_tpu.aot.report import Compiled

# Names that libtpu takes, by the chip.
TOPOLOGIES = {
    "v4": "v4:2x2x1",
    "v5e": "v5e:1x1, v5e:2x2",
    "v5p": "v5p:2x2x1",
    "v6e": "v6e:1x1, v6e:2x2",
    "tpu7x": "tpu7x:1x1x1, tpu7x:2x2x1",
}

# libtpu would wait minutes for a metadata server, refuse a second process, and complain.
ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


class AotError(RuntimeError):
    """The program cannot be compiled for this topology."""


def compile(
    model: torch.nn.Module | Callable[..., Any],
    example_inputs: Sequence[Any],
    topology: str = "v6e:1x1",
    *,
    loss_fn: Callable[..., torch.Tensor] | None = None,
    optimizer: Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer] | None = None,
    parallelize: Callable[[torch.nn.Module], torch.nn.Module | None] | None = None,
    effort: int | None = None,
) -> Compiled:
    """Captures the model as :func:`capture` does and compiles it for a topology: for one of its
    devices, or with `parallelize` for all of them.

    Args:
        topology: such as "v5e:1x1", "v6e:2x2" or "tpu7x:1x1x1".
        effort: how much work the compiler does for a fast program, 0 to 3. With 0 it needs a tenth
            of the time or less, for a program that is slower and takes about the same memory. None:
            the compiler's own choice, which is what the runtime takes.

    Raises:
        AotError: libtpu is not installed, the topology does not exist, or the compiler refuses the
            program. A program that does not fit is no error: see ``fits``.
    """
    chip = topology.partition(":")[0]
    if chip not in TOPOLOGIES or ":" not in topology:
        raise _no_topology(topology)
    libtpu = _plugin.find_libtpu()
    if libtpu is None:
        raise AotError("the TPU's compiler is not installed: pip install libtpu")
    devices = 1
    if parallelize is not None:
        found = _run_compiler(libtpu, topology, Program("", {}))
        if "topology" not in found:
            raise _no_topology(topology, found["error"][1].partition("\n")[0])
        devices = found["topology"]["num_devices"]
    program = capture(
        model,
        example_inputs,
        loss_fn=loss_fn,
        optimizer=optimizer,
        parallelize=parallelize,
        num_devices=devices,
    )
    return _compiled(program, topology, _run_compiler(libtpu, topology, program, effort))


def _no_topology(name: str, problem: str = "") -> AotError:
    why = f" ({problem})" if problem else ""
    return AotError(f"no topology {name!r}{why}; such as: {', '.join(TOPOLOGIES.values())}")


def _run_compiler(
    libtpu: str, topology: str, program: Program, effort: int | None = None
) -> dict[str, Any]:
    """In a process of its own, as a crash of the compiler ends its process."""
    with tempfile.TemporaryDirectory(prefix="torch_tpu_aot_") as folder:
        source, result = Path(folder, "program.mlir"), Path(folder, "result")
        source.write_text(program.text)
        worker = [sys.executable, "-P", "-m", "torch_tpu.aot._worker"]
        command = [*worker, libtpu, topology, str(source)]
        options = [str(program.num_devices), "-1" if effort is None else str(effort)]
        run = subprocess.run(
            [*command, *options, str(result)],
            env=os.environ | ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if run.returncode != 0:
            last = run.stderr.strip().splitlines()[-1:] or ["no message"]
            raise AotError(f"the TPU's compiler ended with status {run.returncode}: {last[0]}")
        return pickle.loads(result.read_bytes())


def _compiled(program: Program, topology: str, made: dict[str, Any]) -> Compiled:
    code, details = made.get("error", ("", ""))
    first_line = details.partition("\n")[0]
    if "topology" not in made:
        raise _no_topology(topology, first_line)
    if code and code != "RESOURCE_EXHAUSTED":
        raise AotError(f"the TPU's compiler refuses the program: {first_line}")
    return report.compiled(program, topology, made)
