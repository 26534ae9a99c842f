"""Compiles a captured program with libtpu, in a process of its own, and reports what it needs."""

from __future__ import annotations

import dataclasses
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
from torch_tpu.aot.capture import Program, capture

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


@dataclasses.dataclass(frozen=True)
class Compiled:
    """What the TPU's compiler says. Sizes in bytes, of one device."""

    topology: str
    device_kind: str
    num_devices: int
    fits: bool
    problem: str
    """Why it does not fit; empty if it does."""
    memory_limit: int | None
    """Memory of one device."""
    memory: dict[str, int]
    """The compiler's own: arguments, outputs, alias, temporaries, peak, generated_code; empty if
    it does not fit."""
    held: dict[str, int]
    """Bytes of the inputs by kind; see :class:`Program`."""
    flops: float | None
    bytes_accessed: float | None
    optimal_seconds: float | None
    """The compiler's estimate; None where it has none."""
    executable: bytes = dataclasses.field(repr=False, default=b"")
    """The serialized program, for a TPU of this kind and the same libtpu."""

    def __str__(self) -> str:
        lines = [
            f"compiled for {self.topology} ({self.device_kind}), one of {self.num_devices} "
            "devices; nothing here ran on a TPU"
        ]
        if not self.fits:
            lines.append(f"DOES NOT FIT: {self.problem}")
        limit = "" if self.memory_limit is None else f" of {_mib(self.memory_limit)}"
        if self.memory:
            lines.append(f"peak memory      {_mib(self.memory['peak'])}{limit}")
            lines.append(f"  temporaries    {_mib(self.memory['temporaries'])}")
            lines.append(f"  program        {_mib(self.memory['generated_code'])}")
        for kind, size in self.held.items():
            if size:
                lines.append(f"  {kind:14} {_mib(size)}")
        if self.flops is not None:
            lines.append(f"flops            {self.flops:.4g}")
        if self.bytes_accessed is not None:
            lines.append(f"bytes accessed   {self.bytes_accessed:.4g}")
        if self.optimal_seconds is not None:
            lines.append(f"estimated time   {self.optimal_seconds:.4g} s (the compiler's)")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """All but the executable."""
        values = dataclasses.asdict(self)
        del values["executable"]
        return values


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def compile(
    model: torch.nn.Module | Callable[..., Any],
    example_inputs: Sequence[Any],
    topology: str = "v6e:1x1",
    *,
    loss_fn: Callable[..., torch.Tensor] | None = None,
    optimizer: Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer] | None = None,
) -> Compiled:
    """Captures the model as :func:`capture` does and compiles it for one device of a topology.

    Args:
        topology: such as "v5e:1x1", "v6e:2x2" or "tpu7x:1x1x1".

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
    program = capture(model, example_inputs, loss_fn=loss_fn, optimizer=optimizer)
    return _compiled(program, topology, _run_compiler(libtpu, topology, program.text))


def _no_topology(name: str, problem: str = "") -> AotError:
    why = f" ({problem})" if problem else ""
    return AotError(f"no topology {name!r}{why}; such as: {', '.join(TOPOLOGIES.values())}")


def _run_compiler(libtpu: str, topology: str, text: str) -> dict[str, Any]:
    """In a process of its own, as a crash of the compiler ends its process."""
    with tempfile.TemporaryDirectory(prefix="torch_tpu_aot_") as folder:
        source, result = Path(folder, "program.mlir"), Path(folder, "result")
        source.write_text(text)
        command = [sys.executable, "-m", "torch_tpu.aot._worker", libtpu, topology]
        run = subprocess.run(
            [*command, str(source), str(result)],
            env=os.environ | ENVIRONMENT,
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
    costs = made.get("costs", {})
    optimal = costs.get("optimal_seconds")
    return Compiled(
        topology=topology,
        device_kind=made["topology"]["device_kind"],
        num_devices=made["topology"]["num_devices"],
        fits=not code,
        problem=first_line,
        memory_limit=made["topology"]["memory_bytes"],
        memory=made.get("memory", {}),
        held=program.held,
        flops=costs.get("flops"),
        bytes_accessed=costs.get("bytes accessed"),
        optimal_seconds=optimal if optimal is not None and optimal > 0 else None,
        executable=made.get("executable", b""),
    )
