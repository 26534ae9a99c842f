"""Every operator of PyTorch's own test database, on the CPU and on the device.

The fast tier takes a few samples of each operator in float32 and int64. ``--full`` (or
TORCH_TPU_TEST_FULL=1) takes all samples in all dtypes. What is known to differ is listed in
expected_failures.txt; an operator of that list that passes is a failure too."""

import os

import pytest
from opinfo_runner import (
    FORMS,
    Case,
    Choice,
    cases,
    fast,
    full_name,
    name_of,
    read_expected,
    reasons_of,
)

FULL = os.environ.get("TORCH_TPU_TEST_FULL") == "1"
EXPECTED = read_expected(sweep=FULL)
ALL = {name_of(op, dtype): (op, dtype) for op, dtype in cases(FULL)}


@pytest.fixture(autouse=True)
def silent_fallback(monkeypatch):
    """Fallbacks are counted by the runner."""
    monkeypatch.setenv("TORCH_TPU_CPU_FALLBACK", "silent")


@pytest.mark.parametrize("name", ALL)
def test_operator(name):
    op, dtype = ALL[name]
    failures = Case(op, dtype, Choice() if FULL else fast(dtype)).run()
    expected = reasons_of(EXPECTED, full_name(op), str(dtype).removeprefix("torch."))
    new = {form: text for form, text in failures.items() if form not in expected}
    assert not new, "\n".join(f"{name} {form}: {text}" for form, text in new.items())
    passes = sorted(set(EXPECTED.get(name, ())) & {*FORMS, "fallback"} - set(failures))
    assert not passes, f"{name} {', '.join(passes)}: listed as an expected failure, but passes"


def test_list_names_operators():
    """Each line of the list is about an operator and dtype that is there."""
    known = {full_name(op) for op, _ in cases(full=True)}
    listed = {name.partition(" ")[0] for name in read_expected(sweep=True)}
    assert listed <= known | {"*"}
