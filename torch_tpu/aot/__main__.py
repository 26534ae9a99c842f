"""``python -m torch_tpu.aot TARGET --topology v6e:1x1``: does it compile, and fit?"""

from __future__ import annotations

import argparse
import importlib
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import torch

from torch_tpu.aot.compile import AotError, compile


def _adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3, capturable=True)


def _target(name: str) -> dict[str, Any]:
    """What the target's function returns: "model", "inputs", and what else compile() takes."""
    module, _, function = name.rpartition(":")
    if name.endswith(".py"):
        module, function = name, "aot"
    if not module:
        raise SystemExit(f"{name!r} is no target: FILE.py, FILE.py:FUNCTION or MODULE:FUNCTION")
    found = (
        runpy.run_path(module) if module.endswith(".py") else vars(importlib.import_module(module))
    )
    if function not in found:
        raise SystemExit(f"{module} has no function {function!r}")
    return found[function]()


def main(arguments: list[str] | None = None) -> int:
    """Runs the command. Returns 1 if the program does not compile or does not fit."""
    parser = argparse.ArgumentParser(prog="python -m torch_tpu.aot", description=__doc__)
    parser.add_argument(
        "target",
        help="FILE.py, whose function aot() is called, FILE.py:FUNCTION, or MODULE:FUNCTION. The "
        'function returns {"model": ..., "inputs": (...)}, and "loss_fn" and "optimizer" where '
        "needed (see torch_tpu.aot.capture)",
    )
    parser.add_argument("--topology", default="v6e:1x1")
    parser.add_argument("--train", action="store_true", help="a training step (default: AdamW)")
    parser.add_argument("--json", type=Path, help="also writes the report here")
    options = parser.parse_args(arguments)
    target = _target(options.target)
    model, inputs = target.pop("model"), target.pop("inputs")
    if options.train:
        target.setdefault("optimizer", _adamw)
    else:
        target = {}
    try:
        compiled = compile(model, inputs, options.topology, **target)
    except AotError as error:
        print(error, file=sys.stderr)
        return 1
    print(compiled)
    if options.json is not None:
        options.json.write_text(json.dumps(compiled.to_json(), indent=1) + "\n")
    return 0 if compiled.fits else 1


if __name__ == "__main__":
    sys.exit(main())
