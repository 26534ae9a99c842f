"""The list of operators, docs/operators.md, and that of those that only the CPU has, are true."""

import importlib.util
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "operators.py"


@pytest.fixture(scope="module")
def operators():
    spec = importlib.util.spec_from_file_location("operators_script", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def routes(operators):
    return {name: operators.route(name) for name in operators.all_overloads()}


def test_fallbacks_have_a_reason(operators, routes):
    """An overload falls back if and only if scripts/cpu_only_operators.txt lists it."""
    assert operators.problems(routes, operators.read_cpu_only()) == []


def test_every_lowering_serves_an_operator(operators):
    """A row of the table whose name PyTorch does not know is served to nobody."""
    assert operators.without_operator() == []


def test_document_is_up_to_date(operators, routes):
    text = operators.document(routes, operators.read_cpu_only())
    assert operators.DOCUMENT.read_text() == text, "run python scripts/operators.py"


def test_all_overloads_are_listed(operators, routes):
    """Every kernel that a dense tensor on the CPU finds, composed ones too."""
    on_cpu = torch._C._dispatch_get_registrations_for_dispatch_key("CPU")
    assert {n for n in on_cpu if n.startswith("aten::")} <= set(routes)


def test_routes(operators):
    assert operators.route("aten::add.Tensor") == operators.NATIVE
    assert operators.route("aten::softmax.int") == operators.COMPOSED
    assert operators.route("aten::_to_sparse") == operators.FALLBACK


def test_a_wrong_list_is_found(operators, routes):
    reasons = operators.read_cpu_only()
    dropped = reasons.pop("aten::_to_sparse")
    reasons["aten::add.Tensor"] = dropped
    assert operators.problems(routes, reasons) == [
        "aten::_to_sparse runs on the CPU, and no reason is listed",
        "aten::add.Tensor is listed, but does not run on the CPU",
    ]
