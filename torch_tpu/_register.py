"""Makes the device known to torch: its name, its module ``torch.tpu``, and methods of tensors."""

from __future__ import annotations

import sys
import warnings

import torch

from torch_tpu import _load, _plugin

_done = False


def register() -> None:
    """Registers the device, once. Never raises: a failure becomes a warning."""
    global _done
    if _done:
        return
    _done = True
    try:
        _name_the_device()
    except Exception as error:
        warnings.warn(f"torch_tpu could not register the tpu device: {error}", stacklevel=2)


def _name_the_device() -> None:
    torch.utils.rename_privateuse1_backend("tpu")

    from torch_tpu import tpu

    torch._register_device_module("tpu", tpu)
    for name in ("amp", "memory", "random"):
        sys.modules[f"torch.tpu.{name}"] = getattr(tpu, name)

    if _load.load_problem is not None:
        warnings.warn(_load.load_problem, stacklevel=4)
        return
    choice = _plugin.choose()
    _load.C.set_default_plugin(choice.path, choice.kind, choice.problem)

    unsupported = [
        torch.quint8,
        torch.quint4x2,
        torch.quint2x4,
        torch.qint32,
        torch.qint8,
    ]
    torch.utils.generate_methods_for_privateuse1_backend(
        for_storage=True, unsupported_dtype=unsupported
    )
    torch.set_autocast_dtype("tpu", torch.bfloat16)

    from torch_tpu import _dynamo_interface, _exit, _multiprocessing

    _dynamo_interface.register_when_imported()
    _multiprocessing.register()
    _exit.register()
