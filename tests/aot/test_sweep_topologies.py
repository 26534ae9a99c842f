"""The sweep over topologies: what it reports, that it survives its workers, and a sample of it."""

import json
import os
import subprocess
import sys

import pytest
import sweep_topologies as st

from torch_tpu import _plugin

needs_libtpu = pytest.mark.skipif(
    _plugin.find_libtpu() is None, reason="libtpu is not installed (pip install libtpu)"
)
FULL = os.environ.get("TORCH_TPU_TEST_FULL") == "1"

#: A worker that does what the program's text says.
FAKE = """
import json, os, sys, time
from pathlib import Path
for line in sys.stdin:
    unit = json.loads(line)
    text = Path(unit["folder"], unit["program"]).read_text()
    if "die" in text:
        os.kill(os.getpid(), 11)
    if "hang" in text:
        time.sleep(60)
    answer = {"status": "compiles", "by": os.getpid()}
    if "refuse" in text:
        answer = {"status": "refused", "text": "UNIMPLEMENTED: no f64 sine of 3 elements"}
    print(json.dumps(answer), flush=True)
"""
FAKE_WORKER = [sys.executable, "-c", FAKE]


def write_programs(folder, **texts):
    """Programs of one operand and one result: ``sin_f64_1="refuse"`` makes one of sin."""
    for name, text in texts.items():
        operator, dtype, number = name.split("_")
        main = f"@main(%arg0: tensor<3x{dtype}>) -> (tensor<{dtype}>) {{ // {text}"
        (folder / f"{operator}.{number}.mlir").write_text(f"module @{operator} {{\n{main}\n}}\n")


def options_of(folder, *more):
    return st.parse([str(folder), "--workers=1", "--topology=v6e:1x1", *more])


def statuses(results):
    return {name.split(".")[0]: answer["status"] for (_, name), answer in results.items()}


def test_a_compiler_that_dies_or_hangs_is_survived_and_told(tmp_path):
    write_programs(tmp_path, add_f32_1="", sin_f32_2="die", mul_f32_3="", cos_f32_4="hang")
    results = st.sweep(options_of(tmp_path, "--timeout=1"), FAKE_WORKER)
    assert statuses(results) == {
        "add": "compiles",
        "sin": "crash",
        "mul": "compiles",
        "cos": "timeout",
    }
    assert st.problems_of(results, tmp_path, {}, whole=True) == [
        "cos.4.mlir [f32] v6e:1x1: timeout: no answer in 1 s",
        "sin.2.mlir [f32] v6e:1x1: crash: the process ended with -11",
    ]


LIST = "sin [f64] 2 on v5e, v6e: UNIMPLEMENTED: no f64 sine\n"


@pytest.mark.parametrize(
    ("programs", "whole", "problem"),
    [
        ({"sin_f64_1": "refuse", "sin_f64_2": "refuse", "sin_f32_3": ""}, True, None),
        ({"sin_f64_1": "refuse", "sin_f64_2": ""}, True, "2 programs are listed"),
        ({"sin_f64_1": "", "sin_f64_2": ""}, True, "2 programs are listed"),
        ({"sin_f64_1": "refuse"}, False, None),
        ({f"sin_f64_{i}": "refuse" for i in range(3)}, False, "2 programs are listed"),
        ({"sin_f32_1": "refuse"}, False, "sin.1.mlir [f32] v6e:1x1: refused: UNIMPLEMENTED"),
        ({"cos_f64_1": "refuse"}, False, "cos.1.mlir [f64] v6e:1x1: refused: UNIMPLEMENTED"),
        ({"sin_f64_1": "die"}, False, "sin.1.mlir [f64] v6e:1x1: crash"),
    ],
)
def test_what_differs_from_the_list_is_told(tmp_path, programs, whole, problem):
    """A chip that was not tried is not asked for."""
    write_programs(tmp_path, **programs)
    (tmp_path / "list.txt").write_text(LIST)
    expected = st.read_expected(tmp_path / "list.txt")
    results = st.sweep(options_of(tmp_path), FAKE_WORKER)
    problems = st.problems_of(results, tmp_path, expected, whole)
    if problem is None:
        assert not problems
    else:
        (told,) = problems
        assert problem in told


def test_another_reason_than_the_listed_one_is_told(tmp_path):
    write_programs(tmp_path, sin_f64_1="refuse", sin_f64_2="refuse")
    results = st.sweep(options_of(tmp_path), FAKE_WORKER)
    for reason, count in (("UNIMPLEMENTED: ... of 3 elements", 0), ("no sine", 3)):
        (tmp_path / "list.txt").write_text(f"sin [f64] 2 on v6e: {reason}\n")
        expected = st.read_expected(tmp_path / "list.txt")
        assert len(st.problems_of(results, tmp_path, expected, whole=True)) == count


def test_a_list_that_is_wrong_is_an_error(tmp_path):
    for text in ("sin f64: no sine\n", "sin [*] 1: no sine\n", LIST + LIST):
        (tmp_path / "list.txt").write_text(text)
        with pytest.raises(ValueError, match=r"list\.txt:[12]: "):
            st.read_expected(tmp_path / "list.txt")


def test_a_sweep_goes_on_where_it_was(tmp_path, capsys):
    """An answer of another libtpu does not count; nor does a line that was cut."""
    write_programs(tmp_path, add_f32_1="", sin_f32_2="", mul_f32_3="")
    options = options_of(tmp_path)
    st.sweep(options, FAKE_WORKER)
    lines = options.results.read_text().splitlines(keepends=True)
    other = json.loads(lines[1]) | {"libtpu": "0.0.1"}
    options.results.write_text(lines[0] + json.dumps(other) + "\n" + lines[2][:30])
    again = FAKE.replace('"compiles"', '"refused", "text": "again"')
    results = st.sweep(options, [sys.executable, "-c", again])
    assert sorted(statuses(results).values()) == ["compiles", "refused", "refused"]
    listed = sum(chip == "v6e" for _, _, chip in st.read_expected())
    assert st.report(results, options) == 2 + listed
    assert "v6e:1x1: 1 of 3 programs compile (33.33 %), 2 refused" in capsys.readouterr().out


#: One of each: pointwise, product, convolution, reduction, scan, sort, scatter, gather, pool,
#: normalization, linear algebra, Fourier transform, random numbers. int64 too.
SAMPLE = (
    r"^(add|matmul|nn\.functional\.conv2d|amax|cumsum|sort|scatter_add|gather|bernoulli|fft\.rfft|"
    r"nn\.functional\.(max_pool1d|layer_norm)|linalg\.cholesky)$"
)


@needs_libtpu
def test_a_sample_compiles(tmp_path):
    command = [sys.executable, str(st.OPS / "opinfo_runner.py"), SAMPLE]
    subprocess.run(command, env=st.emitting(tmp_path), check=True, timeout=300)
    (tmp_path / "nonsense.0.mlir").write_text("module @nonsense { @main() -> tensor<3xf32> }")
    options = options_of(tmp_path)
    results = st.sweep(options)
    problems = st.problems_of(results, tmp_path, st.read_expected(), whole=False)
    assert [problem.split(" ")[0] for problem in problems] == ["nonsense.0.mlir"]
    found = [answer["status"] for answer in results.values()]
    assert found.count("compiles") >= 30
    assert found.count("refused") >= 2  # convolutions of int64 as well: they are in the list


@needs_libtpu
@pytest.mark.skipif(not FULL, reason="TORCH_TPU_TEST_FULL=1 compiles every program (an hour)")
def test_every_program_compiles(tmp_path):
    command = [sys.executable, st.__file__, str(tmp_path), "--emit"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr[-2000:]
