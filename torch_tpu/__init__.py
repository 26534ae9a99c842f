"""TPUs as a PyTorch device: ``torch.device("tpu")``, over PJRT.

``import torch`` loads this package by itself (entry point ``torch.backends``). Importing it starts
no runtime, makes no thread and never raises: what is wrong, if anything, is told by the first use
of the device and by ``python -m torch_tpu.info``.
"""


def _autoload() -> None:
    """Entry point ``torch.backends``: importing this package has done everything."""


# Below the entry point: when this package is imported first, `import torch` comes back for it.
from torch_tpu import _register  # noqa: E402

__version__ = "0.1.0"

_register.register()
