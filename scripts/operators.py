"""Which ATen overloads run on the device, and how: writes docs/operators.md.

python scripts/operators.py            writes the file
python scripts/operators.py --check    fails if the file, or cpu_only_operators.txt, is not true
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import torch
import torch_tpu._C

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "operators.md"
CPU_ONLY = Path(__file__).with_name("cpu_only_operators.txt")

NATIVE, COMPOSED, FALLBACK = "native", "composed", "fallback"


def all_overloads() -> list[str]:
    """Every overload of ATen that a dense tensor on the CPU can be given to."""
    on_cpu = set(torch._C._dispatch_get_registrations_for_dispatch_key("CPU"))
    names = (n for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::"))
    has = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    return sorted(n for n in names if n in on_cpu or has(n, "CPU"))


def route(overload: str) -> str:
    """How the dispatcher serves the overload on the device."""
    table = torch._C._dispatch_dump_table(overload)
    row = next((r for r in table.splitlines() if r.startswith("PrivateUse1:")), "")
    if row.endswith("[kernel]"):
        return NATIVE
    return FALLBACK if not row or row.endswith("[backend fallback]") else COMPOSED


def read_cpu_only(path: Path = CPU_ONLY) -> dict[str, str]:
    """``{overload: reason}`` of the file: reasons, and below each its overloads, indented."""
    reasons: dict[str, str] = {}
    reason = ""
    for line in path.read_text().splitlines():
        text = line.partition("#")[0].strip()
        if not text:
            continue
        if not line.startswith(" "):
            reason = text
            continue
        if text in reasons:
            raise ValueError(f"{path.name} lists {text} twice")
        reasons[text] = reason
    return reasons


def problems(routes: dict[str, str], reasons: dict[str, str]) -> list[str]:
    """What is wrong with the list of the overloads that only the CPU has."""
    falls = {name for name, how in routes.items() if how == FALLBACK}
    missing = [
        f"{n} runs on the CPU, and no reason is listed" for n in sorted(falls - set(reasons))
    ]
    extra = [f"{n} is listed, but does not run on the CPU" for n in sorted(set(reasons) - falls)]
    return missing + extra


def without_operator() -> list[str]:
    """Rows of the table of lowerings that name an operator which does not exist."""
    return sorted(name for name, forms in torch_tpu._C.operator_table().items() if not forms)


def document(routes: dict[str, str], reasons: dict[str, str]) -> str:
    lines = [
        "# Operators",
        "",
        "Every overload of ATen for dense tensors, and what runs it on the device. Written by",
        "`python scripts/operators.py` from what the dispatcher says; a test compares it.",
        "",
        "* **native**: a kernel of this package runs it on the device.",
        "* **composed**: PyTorch makes it of other operators.",
        "* **CPU**: it runs on the CPU, with a warning; the reasons are below.",
        "",
        "| | overloads |",
        "|---|---|",
    ]
    count = {how: sum(h == how for h in routes.values()) for how in (NATIVE, COMPOSED, FALLBACK)}
    lines += [
        f"| native | {count[NATIVE]} |",
        f"| composed | {count[COMPOSED]} |",
        f"| CPU | {count[FALLBACK]} |",
        "",
        "## On the CPU",
        "",
    ]
    by_reason: dict[str, list[str]] = defaultdict(list)
    for name, reason in reasons.items():
        by_reason[reason].append(name.removeprefix("aten::"))
    for reason, names in by_reason.items():
        lines.append(f"* {reason}: {listed(names)}")
    lines += ["", "## All", "", "| operator | native | composed | CPU |", "|---|---|---|---|"]
    for base, overloads in grouped(routes).items():
        cells = [listed(n for n in overloads if routes["aten::" + n] == how) for how in count]
        lines.append(f"| `{base}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def listed(names) -> str:
    return ", ".join(f"`{n}`" for n in names)


def grouped(routes: dict[str, str]) -> dict[str, list[str]]:
    """The overloads of each operator, in-place ones beside the others."""
    groups: dict[str, list[str]] = defaultdict(list)
    for overload in routes:
        name = overload.removeprefix("aten::")
        base = name.partition(".")[0]
        groups[base if base.endswith("__") else base.removesuffix("_") or base].append(name)
    return dict(sorted(groups.items()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    routes = {name: route(name) for name in all_overloads()}
    reasons = read_cpu_only()
    wrong = problems(routes, reasons)
    wrong += [f"a lowering names {name}, which does not exist" for name in without_operator()]
    text = document(routes, reasons)
    if check and (not DOCUMENT.exists() or DOCUMENT.read_text() != text):
        wrong.append(f"{DOCUMENT.name} is out of date: run python scripts/operators.py")
    if not check:
        DOCUMENT.write_text(text)
    print("\n".join(wrong) or f"{len(routes)} overloads")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
