"""Each operator of PyTorch's own test database, captured alone: the numbers and strides of Strict.

Operators that need a value on the host are named in needs_host.txt; one of these that can be
captured is a failure too."""

from pathlib import Path

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from torch_tpu._load import C

SEED = 42  # that of the database for random operators
SAMPLES = 2
LINES = (Path(__file__).parent / "needs_host.txt").read_text().splitlines()
NEEDS_HOST = {line for line in LINES if line and not line.startswith("#")}
OPERATORS = {
    f"{op.name} {op.variant_test_name}".strip(): op
    for op in op_db
    if not op.name.startswith("jiterator")  # of CUDA
}
UNINITIALIZED = ("empty", "resize", "new_empty")


class NeedsHostError(Exception):
    pass


def is_on_device(value):
    return isinstance(value, torch.Tensor) and value.device.type == "tpu"


def samples_of(op):
    dtypes = op.supported_dtypes("cpu")
    if not dtypes:
        return
    dtype = torch.float32 if torch.float32 in dtypes else min(dtypes, key=str)
    for _, sample in zip(range(SAMPLES), op.sample_inputs("cpu", dtype), strict=False):
        yield lambda sample=sample: tree_map(
            lambda x: x.to("tpu") if isinstance(x, torch.Tensor) and not x.is_sparse else x,
            (sample.input, sample.args, sample.kwargs),
        )


def results_of(op, arguments):
    value, args, kwargs = arguments
    with torch.no_grad():
        return [x for x in tree_flatten(op(value, *args, **kwargs))[0] if is_on_device(x)]


def captured(op, arguments):
    leaves, spec = tree_flatten(arguments)
    tensors = [x for x in leaves if is_on_device(x)]
    graph = C.Graph("operator", [], 0)
    capture = C.Capture(graph, tensors, adopts=True)
    given = iter(capture.placeholders())
    leaves = [next(given) if is_on_device(x) else x for x in leaves]
    capture.enter()
    try:
        capture.finish(results_of(op, tree_unflatten(leaves, spec)))
    except RuntimeError as error:
        if capture.problem():
            raise NeedsHostError from error
        raise
    finally:
        capture.exit()
    torch.manual_seed(SEED)
    return graph.run(tensors)


def runs_eagerly(op, arguments):
    torch.manual_seed(SEED)
    try:
        return results_of(op, arguments)
    except (RuntimeError, TypeError, ValueError):
        return None  # such as layouts that the device does not have: test_opinfo.py's business


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPERATORS)
def test_captured_alone(name):
    op = OPERATORS[name]
    needs_host = False
    for make in samples_of(op):
        expected = runs_eagerly(op, make())
        if expected is None:
            continue
        try:
            results = captured(op, make())
        except NeedsHostError:
            needs_host = True
            break
        assert len(results) == len(expected)
        for result, wanted in zip(results, expected, strict=True):
            assert result.stride() == wanted.stride()
            assert result.dtype == wanted.dtype
            if not any(word in name for word in UNINITIALIZED):
                torch.testing.assert_close(result.cpu(), wanted.cpu(), equal_nan=True)
    if needs_host:
        assert name in NEEDS_HOST, "needs a value on the host"
    else:
        assert name not in NEEDS_HOST, "is in needs_host.txt, but can be captured"


def test_list_names_operators():
    assert set(OPERATORS) >= NEEDS_HOST
