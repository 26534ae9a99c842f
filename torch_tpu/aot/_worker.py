"""The compiler's process.

``python -m torch_tpu.aot._worker LIBTPU TOPOLOGY PROGRAM DEVICES EFFORT RESULT``
"""

import pickle
import sys
from pathlib import Path

import torch  # noqa: F401  its libraries are those of the C++ side

from torch_tpu._load import C
from torch_tpu.aot import hlo

if __name__ == "__main__":
    libtpu, topology, program, devices, effort, result = sys.argv[1:]
    text = Path(program).read_text()
    made = C.compile_for_topology(libtpu, topology, text, int(devices), int(effort))
    if "optimized" in made:
        # Here, since the parent needs no more of the program than its costs. What this does not
        # understand, of a newer compiler, is no reason to lose the rest of the report.
        optimized = made.pop("optimized")
        try:
            made["operators"] = hlo.costs(optimized)
        except ValueError as error:
            made["no_operators"] = str(error)
    Path(result).write_bytes(pickle.dumps(made))
