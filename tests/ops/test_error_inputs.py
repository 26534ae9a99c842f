"""Wrong calls raise what the CPU raises: the same exception type with the same words.

What is known to differ is listed in expected_errors.txt; a call of that list that is the CPU's is a
failure too."""

import pytest
from error_runner import OPS, differences, read_expected

EXPECTED = read_expected()


@pytest.fixture(autouse=True)
def silent_fallback(monkeypatch):
    """Whether an operator has a lowering is the subject of test_opinfo.py."""
    monkeypatch.setenv("TORCH_TPU_CPU_FALLBACK", "silent")


@pytest.mark.parametrize("name", OPS)
def test_errors_are_those_of_the_cpu(name):
    found = dict(differences(OPS[name]))
    expected = EXPECTED.get(name, {})
    new = {call: text for call, text in found.items() if call not in expected}
    assert not new, "\n".join(f"{name} {call}: {text}" for call, text in new.items())
    passes = sorted(set(expected) - set(found))
    assert not passes, f"{name} {', '.join(passes)}: listed as an expected error, but equal"


def test_list_names_operators():
    assert set(EXPECTED) <= set(OPS)
