"""``python -m torch_tpu.aot._worker LIBTPU TOPOLOGY PROGRAM RESULT``: the compiler's process."""

import pickle
import sys
from pathlib import Path

import torch  # noqa: F401  its libraries are those of the C++ side

from torch_tpu._load import C

if __name__ == "__main__":
    libtpu, topology, program, result = sys.argv[1:]
    made = C.compile_for_topology(libtpu, topology, Path(program).read_text())
    Path(result).write_bytes(pickle.dumps(made))
