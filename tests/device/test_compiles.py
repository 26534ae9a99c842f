"""torch.tpu.explain_compiles and TORCH_TPU_LOG: what was compiled, where, and why."""

import json
from typing import NamedTuple

import pytest
import torch


class Last(NamedTuple):
    """The last compile of a program."""

    operators: str
    where: str  # without the program's name
    reason: str
    hint: str


# (program, what the last compile's reason holds, what its hint holds)
REASONS = {
    "first": ("ones(3).asinh()", "the first call of this operator", ""),
    "shape": (
        """
a = ones(130)
a[:129] * a[:129]
a * ones(130)
a * ones(1)
""",
        "shape of argument 2 (other): [130] -> [1]",
        "pad",
    ),
    "dtype": (
        """
a = ones(4)
a * ones(4)
a * ones(4, dtype=torch.int32)
""",
        "dtype of argument 2 (other): float32 -> int32",
        "convert",
    ),
    "strides": (
        """
a, b = ones(4, 4), ones(4, 4)
a * b
a * b.t()
""",
        "strides of argument 2 (other): contiguous -> [1, 4]",
        "contiguous",
    ),
    "shared": (
        """
a, b = ones(4), ones(4)
a * b
a * a
""",
        "memory of argument 2 (other): its own -> shared with argument 1 (self)",
        "memory",
    ),
    "number": (
        """
a, b = ones(4), ones(4)
torch.add(a, b, alpha=2)
torch.add(a, b, alpha=1)
""",
        "argument 3 (alpha): run-time int -> static 1",
        "number",
    ),
    "attribute": (
        """
a = ones(4, 4)
a.sum(0)
a.sum(1)
""",
        "argument 2 (dim): [0] -> [1]",
        "",
    ),
    "none": (
        """
a = ones(4)
a.clamp(0.25, 0.5)
a.clamp(None, 0.5)
""",
        "argument 2 (min): run-time float -> None",
        "",
    ),
    "list": (
        """
a = ones(4)
torch.cat([a, a])
torch.cat([a, a, a])
""",
        "number of tensors in argument 1 (tensors): 2 -> 3",
        "",
    ),
    "precision": (
        """
a = ones(4, 4)
a @ a
with torch.tpu.precision("high"):
    a @ a
""",
        "precision: highest -> high",
        "setting",
    ),
    "nearest": (
        """
a = ones(4, 8)
a.sum(0)
a.double().sum(0, keepdim=True)
a.sum(1)
""",
        "argument 2 (dim): [0] -> [1]",
        "",
    ),
    "fused": (
        """
for n in (6, 7):
    with torch.tpu.eager_mode(FUSED):
        ((ones(n) * 2).sin() + 1).sum().item()
""",
        "operator 1, fill_: shape of argument 1 (self): [6] -> [7]",
        "pad",
    ),
    "another_cut": (
        """
for n in (6, 7):
    with torch.tpu.eager_mode(FUSED):
        x = (ones(8) * 2).sin()
        y = x.cos() if n == 7 else x.tan()
        y.cpu()
""",
        "from operator 4 on: tan -> cos",
        "same place",
    ),
}


LONG_CHAIN = """
x = ones(4)
with torch.tpu.eager_mode(FUSED):
    for i in range(40):
        x = (x + 1).sin()
    x = x * 2
    x.cpu()
"""
LAYER = """
torch.nn.Linear(4, 4, device="tpu")(ones(2, 4))
"""
BACKWARD = """
x = ones(3, 4, requires_grad=True)
y = torch.nn.functional.gelu(x).sum()
y.backward()
"""
PROGRAMS = {name: program for name, (program, _, _) in REASONS.items()}
PROGRAMS |= {"chain": LONG_CHAIN, "layer": LAYER, "backward": BACKWARD}

# Runs all programs, each under its name, in a process that has compiled nothing.
RUN_ALL = f"""
import json, torch
FUSED = torch.tpu.EagerMode.DEFER_AND_FUSE
lasts = {{}}
def ones(*shape, **options):
    return torch.ones(shape, device="tpu", **options)
for name, program in {PROGRAMS!r}.items():
    exec(compile(program.strip(), name, "exec"), {{"torch": torch, "FUSED": FUSED, "ones": ones}})
    last = torch.tpu.explain_compiles()[-1]
    where = last.where.removeprefix(name + ":")
    lasts[name] = (last.operators, where, last.reason, last.hint)
print(json.dumps(lasts))
"""
_lasts: dict[str, Last] = {}


@pytest.fixture
def lasts(run_python):
    if not _lasts:
        result = json.loads(run_python(RUN_ALL, TORCH_TPU_CACHE="0").stdout)
        _lasts.update((name, Last(*last)) for name, last in result.items())
    return _lasts


@pytest.mark.parametrize("name", REASONS)
def test_reasons(name, lasts):
    program, reason, hint = REASONS[name]
    last = lasts[name]
    assert reason in last.reason
    assert hint in last.hint
    assert bool(hint) == bool(last.hint)
    assert last.where == str(len(program.strip().splitlines()))


def test_operators_of_a_fused_program(lasts):
    assert lasts["chain"].operators == "81 operators: add (40), sin (40), mul"
    assert lasts["chain"].where == "6"  # of the cut


def test_the_line_is_the_user_s(lasts):
    """Not one of torch's Python code."""
    assert lasts["layer"].operators == "linear"
    assert lasts["layer"].where == "1"


def test_the_line_of_backward(lasts):
    """Autograd's thread has no frame."""
    assert lasts["backward"].operators == "gelu_backward"
    assert lasts["backward"].where == "3 (from another thread, such as that of backward())"


def test_log_has_a_line_each(run_python):
    code = """
    import torch
    a = torch.full((3,), 2.0, device="tpu")
    a = a.sin()
    for _ in range(5):
        a.sin()
    a.cos()
    """
    lines = run_python(code, TORCH_TPU_CACHE="0", TORCH_TPU_LOG="compiles").stderr.splitlines()
    lines = [line for line in lines if line.startswith("torch_tpu: compiled")]
    assert [line.split()[2] for line in lines] == ["fill_", "sin", "cos"]
    assert " at <string>:7: the first call of this operator" in lines[-1]


def test_programs_from_disk_are_told_apart(run_python, tmp_path):
    code = """
    import torch
    torch.full((3,), 2.0, device="tpu").sin()
    report = torch.tpu.explain_compiles()
    print([c.from_disk for c in report])
    print(report)
    """
    first = run_python(code, TORCH_TPU_CACHE_DIR=str(tmp_path)).stdout
    second = run_python(code, TORCH_TPU_CACHE_DIR=str(tmp_path)).stdout
    assert first.startswith("[False, False]")
    assert "2 programs compiled, 0 loaded" in first
    assert second.startswith("[True, True]")
    assert "#2 loaded sin in" in second


def test_wrong_names_are_refused(run_python):
    code = "import torch; torch.ones(1, device='tpu')"
    error = run_python(code, TORCH_TPU_LOG="compile", status=1).stderr
    assert "TORCH_TPU_LOG=compile: expected a list of compiles, programs" in error


def test_the_report_is_bounded():
    before = torch.tpu.explain_compiles()
    for n in range(3, 8):
        torch.zeros(n, n + 1, 3, device="tpu").sin_()
    after = torch.tpu.explain_compiles()
    assert len(after) <= 512
    assert after[-1].number >= (before[-1].number if before else 0)
    assert list(torch.tpu.explain_compiles(last=2)) == list(after[-2:])
    assert list(torch.tpu.explain_compiles(last=0)) == []
    assert str(torch.tpu.explain_compiles(last=0)) == "nothing was compiled"


def test_compiles_in_several_threads(run_python):
    """Each thread asks for the interpreter's lock while others compile or wait."""
    code = """
    import threading, torch
    def work(i):
        for n in range(1, 12):
            x = torch.ones(n, i + 1, device="tpu", requires_grad=True)
            (x * 2).sin().sum().backward()
    for mode in (torch.tpu.EagerMode.DEFER_NEVER, torch.tpu.EagerMode.DEFER_AND_FUSE):
        with torch.tpu.eager_mode(mode):
            threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
            for t in threads: t.start()
            for t in threads: t.join()
            torch.tpu.synchronize()
    print(len(torch.tpu.explain_compiles()) > 20)
    """
    assert run_python(code, TORCH_TPU_LOG="compiles").stdout == "True\n"
