"""Programs for a TPU that is not there.

libtpu compiles for a named topology on a machine that has no TPU. A model is captured without
memory for its tensors, by the lowerings that run it everywhere else, and compiled by the TPU's own
compiler. Nothing here runs on a TPU: times are estimates.
"""

from torch_tpu.aot.capture import Program, capture
from torch_tpu.aot.compile import AotError, compile
from torch_tpu.aot.report import Compiled

__all__ = ["AotError", "Compiled", "Program", "capture", "compile"]
