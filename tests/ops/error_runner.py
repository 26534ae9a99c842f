"""Runs wrong calls on the CPU and on the device and compares the exceptions, by type and text.

The calls are the error inputs of PyTorch's own operator descriptions (OpInfo), samples whose
tensors are cast to a dtype that the CPU does not implement, and samples of mixed dtypes. As a
script it prints what differs, in the form of expected_errors.txt:

    python tests/ops/error_runner.py [PATTERN]
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from opinfo_runner import DEVICE, LEFT_OUT, SAMPLES, copy_to, full_name, samples_of
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

EXPECTED_FILE = Path(__file__).with_name("expected_errors.txt")

#: Samples are cast to these.
DTYPES = (torch.int64, torch.bool, torch.complex64)

OPS = {full_name(op): op for op in op_db if not LEFT_OUT.search(op.name)}


def read_expected(path: Path = EXPECTED_FILE) -> dict[str, dict[str, str]]:
    """``{operator: {call: reason}}`` of the expected differences."""
    expected: dict[str, dict[str, str]] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.partition(" # ")[0].strip()
        if not line or line.startswith("# "):
            continue
        match = re.fullmatch(r"(\S+) (#?\w+): (.+)", line)
        if match is None:
            raise ValueError(f"{path.name}:{number}: expected 'name call: reason'")
        expected.setdefault(match[1], {})[match[2]] = match[3]
    return expected


def calls(op: OpInfo) -> Iterator[tuple[str, Any]]:
    """(name, (input, args, kwargs)) of the calls, on the CPU; not all of them are wrong."""
    if op.error_inputs_func is not None:
        for i, wrong in enumerate(op.error_inputs("cpu")):
            sample = wrong.sample_input
            yield f"#{i}", (sample.input, sample.args, sample.kwargs)
    supported = op.supported_dtypes("cpu")
    if torch.float32 not in supported:
        return
    samples = samples_of(op, torch.float32, False, SAMPLES[torch.float32])
    for dtype in [d for d in DTYPES if samples and d not in supported]:

        def cast(x: Any, dtype: torch.dtype = dtype) -> Any:
            return x.to(dtype) if isinstance(x, torch.Tensor) and x.dtype == torch.float32 else x

        sample = samples[-1]
        yield _name(dtype), tree_map(cast, (sample.input, sample.args, sample.kwargs))
    yield from mixed_dtypes(samples[-1]) if samples else ()


def mixed_dtypes(sample: SampleInput) -> Iterator[tuple[str, Any]]:
    """The sample with one of its first float32 tensors in float64."""
    leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
    floats = [i for i, x in enumerate(leaves) if getattr(x, "dtype", None) == torch.float32]
    for i in floats[:4] if len(floats) > 1 else ():
        changed = [*leaves[:i], leaves[i].double(), *leaves[i + 1 :]]
        yield f"float64_{i}", tree_unflatten(changed, spec)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def error_of(op: OpInfo, tree: Any, device: str) -> Exception | None:
    torch.manual_seed(0)
    try:
        inputs, args, kwargs = copy_to(tree, device)
        result = op(inputs, *args, **kwargs)
        for x in tree_leaves(result):
            if isinstance(x, torch.Tensor) and x.device.type == DEVICE:
                x.cpu()  # where a wrong index is told
        if device == DEVICE:
            torch.tpu.synchronize()
    except Exception as error:
        return error
    return None


def text_of(error: Exception) -> str:
    """The message, without what names the device."""
    text = " ".join(str(error).split("Exception raised from")[0].split())
    text = re.sub(r"torch\.(\w+)Tensor|tpu(\w+)Type", r"\1\2", text)
    return re.sub(r"\b(tpu:0|tpu|TPU|PrivateUse1|cpu|CPU)\b", "DEVICE", text)


def differences(op: OpInfo) -> Iterator[tuple[str, str]]:
    """(name of the call, what differs)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, tree in calls(op):
            host = error_of(op, tree, "cpu")
            if host is None:
                continue
            device = error_of(op, tree, DEVICE)
            if device is None:
                # Dtypes that the CPU does not implement may be implemented.
                if name not in map(_name, DTYPES):
                    yield name, f"accepted; the CPU: {type(host).__name__}: {text_of(host)}"
            elif type(device) is not type(host) or text_of(device) != text_of(host):
                yield (
                    name,
                    f"{type(device).__name__}: {text_of(device)}; "
                    f"the CPU: {type(host).__name__}: {text_of(host)}",
                )


def main() -> None:
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    for full, op in OPS.items():
        if re.search(pattern, full):
            for name, text in differences(op):
                print(f"{full} {name}: {text}", flush=True)


if __name__ == "__main__":
    main()
