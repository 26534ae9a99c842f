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

from torch_tpu.aot import huggingface
from torch_tpu.aot.compile import AotError, compile


def _adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3, capturable=True)


def _target(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """What the target's function returns: "model", "inputs", and what else compile() takes."""
    if name.startswith("hf:"):
        return huggingface.target(
            name.removeprefix("hf:"), train=options.train, batch=options.batch, seq=options.seq
        )
    module, _, function = name.rpartition(":")
    if name.endswith(".py"):
        module, function = name, "aot"
    if not module:
        raise SystemExit(
            f"{name!r} is no target: FILE.py, FILE.py:FUNCTION, MODULE:FUNCTION or hf:CONFIG"
        )
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
        "needed (see torch_tpu.aot.capture). Or hf:CONFIG, a config.json of Transformers or a "
        "folder that has one",
    )
    parser.add_argument("--topology", default="v6e:1x1")
    parser.add_argument("--train", action="store_true", help="a training step (default: AdamW)")
    parser.add_argument("--batch", type=int, default=1, help="examples of an hf: target (1)")
    parser.add_argument(
        "--seq",
        type=int,
        help="tokens of an example of an hf: target (the model's longest, at most 2048)",
    )
    parser.add_argument(
        "--effort",
        type=int,
        choices=range(4),
        help="of the compiler (its own choice); 0 takes a tenth of its time or less, for a slower "
        "program that takes about the same memory",
    )
    parser.add_argument("--plot", type=Path, help="also draws the memory here (SVG)")
    parser.add_argument("--json", type=Path, help="also writes the report here")
    options = parser.parse_args(arguments)
    try:
        target = _target(options.target, options)
    except huggingface.ConfigError as error:
        raise SystemExit(str(error)) from error
    model, inputs = target.pop("model"), target.pop("inputs")
    if options.train:
        target.setdefault("optimizer", _adamw)
    else:
        target = {name: target[name] for name in ("parallelize",) if name in target}
    try:
        compiled = compile(model, inputs, options.topology, effort=options.effort, **target)
    except AotError as error:
        print(error, file=sys.stderr)
        return 1
    print(compiled)
    if options.plot is not None:
        compiled.plot(options.plot)
    if options.json is not None:
        options.json.write_text(json.dumps(compiled.to_json(), indent=1) + "\n")
    return 0 if compiled.fits else 1


if __name__ == "__main__":
    sys.exit(main())
