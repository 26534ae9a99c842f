"""The sweep itself: it goes on where it was stopped, and survives workers that die or hang."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import sweep
import worker_pool

OPS = Path(sweep.__file__).parent

#: A worker that dies, hangs or answers, as the unit says.
FAKE = """
import json, os, sys, time
for line in sys.stdin:
    what = json.loads(line)["do"]
    if what == "die":
        os.kill(os.getpid(), 11)
    if what == "half":
        print('{"status"', end="", flush=True)
        os._exit(3)
    if what == "hang":
        time.sleep(60)
    answer = {"status": "passed", "by": os.getpid(), "replace": what == "last"}
    print(json.dumps(answer), flush=True)
"""


def ask(*groups: list[str], seconds: float = 20.0, workers: int = 1) -> list[tuple[str, dict]]:
    told = []
    worker_pool.run(
        [sys.executable, "-c", FAKE],
        [[{"do": what} for what in group] for group in groups],
        lambda unit, answer: told.append((unit["do"], answer)),
        workers,
        seconds,
        subprocess.DEVNULL,
    )
    return told


def test_a_worker_that_dies_is_replaced():
    told = ask(["a", "die", "b", "half", "c"])
    assert [what for what, _ in told] == ["a", "die", "b", "half", "c"]
    statuses = [answer["status"] for _, answer in told]
    assert statuses == ["passed", "crash", "passed", "crash", "passed"]
    assert told[1][1]["text"] == "the process ended with -11"
    assert told[3][1]["text"] == "the process ended with 3"


def test_a_worker_that_hangs_is_replaced():
    told = dict(ask(["hang", "a"], seconds=1.0))
    assert told["hang"] == {"status": "timeout", "text": "no answer in 1 s"}
    assert told["a"]["status"] == "passed"


def test_a_worker_can_ask_to_be_replaced():
    told = dict(ask(["a", "b", "last", "c"]))
    assert told["a"]["by"] == told["b"]["by"] == told["last"]["by"] != told["c"]["by"]


def test_groups_are_shared_by_workers():
    told = ask(*[[f"{i}", f"{i}'"] for i in range(8)], workers=2)
    assert len(told) == 16
    by = {what: answer["by"] for what, answer in told}
    assert all(by[f"{i}"] == by[f"{i}'"] for i in range(8))


def run_sweep(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, OPS / "sweep.py", "--results", folder / "sweep.jsonl", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_a_sweep_goes_on_where_it_was(tmp_path):
    """Stopped in the middle of a line: that unit is run again, the others are not."""
    arguments = ["^neg$", "--workers=1", "--samples=1", "--dtypes=float32"]
    first = run_sweep(tmp_path, *arguments, "--forms=forward,out,grad,zero_size,errors")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "1 of 1 (operator, dtype) pairs pass natively in all forms: 100.00 %" in first.stdout
    file = tmp_path / "sweep.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    assert [json.loads(line)["form"] for line in lines] == [
        "forward",
        "out",
        "grad",
        "zero_size",
        "errors",
    ]
    assert all(json.loads(line)["status"] == "passed" for line in lines)
    file.write_text("".join(lines[:4]) + lines[4][:20])
    again = run_sweep(tmp_path, *arguments, "--forms=forward,out,grad,zero_size,errors")
    assert again.returncode == 0, again.stdout + again.stderr
    assert "1/1, 0 min left: 1 passed" in again.stderr
    assert "| errors | 1 | 0 | 0 | 0 | 0 |" in again.stdout


def result(**given) -> dict:
    unit = {"op": "neg", "dtype": "float32", "form": "out", "mode": "strict", "samples": None}
    return unit | given


@pytest.mark.parametrize(
    ("given", "column"),
    [
        ({"status": "passed", "failures": {}, "fallbacks": []}, "passed"),
        ({"status": "none", "failures": {}, "fallbacks": []}, "none"),
        ({"status": "passed", "failures": {}, "fallbacks": ["aten::neg"]}, "fallback"),
        ({"status": "failed", "failures": {"out": "values"}, "fallbacks": []}, "failed"),
        ({"status": "crash", "text": "it died"}, "failed"),
        ({"status": "timeout", "text": "it slept"}, "failed"),
    ],
)
def test_columns(given, column):
    assert sweep.judge(result(**given), {}, {})[0] == column


def test_expected_failures_have_their_column():
    known = {"neg [float32]": {"out": "a reason"}}
    failing = result(status="failed", failures={"out": "values"})
    assert sweep.judge(failing, known, {}) == ("expected", {})
    assert sweep.judge(failing, {"neg [int64]": {"out": "a reason"}}, {})[0] == "failed"
    passing = result(status="passed", failures={})
    assert sweep.judge(passing, known, {})[0] == "failed"
    assert sweep.judge(passing | {"samples": 2}, known, {})[0] == "passed"


def test_a_form_that_is_not_there_is_told(tmp_path):
    told = run_sweep(tmp_path, "--forms=outt")
    assert told.returncode == 1
    assert "no form ['outt']" in told.stderr
