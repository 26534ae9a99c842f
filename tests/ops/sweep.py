"""The full sweep: every OpInfo, every dtype that the CPU has, every form, compared with the CPU.

    python tests/ops/sweep.py [PATTERN] [--results FILE] [--workers N] [--every N] [--samples N]
                              [--forms A,B] [--dtypes A,B] [--debug] [--report]

A unit is an operator, a dtype and a form. Each answer is a line of the results file, so that a
sweep that was stopped goes on where it was; units whose answers are there are not run again. Units
run in worker processes that may die or hang. At the end, or with --report alone, a table tells by
form what passed. Programs are compiled into a cache of the sweep's own: each is counted once."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import worker_pool

#: Of the names of the environment only these differ between modes.
MODES = {"strict": {}, "debug": {"TORCH_TPU_LAUNCH_BLOCKING": "1"}}
#: A unit without a dtype: the wrong calls of error_runner.py.
ERRORS = "errors"
#: A worker that has made so many programs is replaced: each takes memory.
PROGRAMS_OF_A_WORKER = 3000

Key = tuple[str, str, str, str]
Unit = dict[str, Any]


def key_of(unit: Unit) -> Key:
    return unit["op"], unit["dtype"], unit["form"], unit["mode"]


# ---------------------------------------------------------------------------------------- workers


def run_unit(unit: Unit, ops: dict[str, Any]) -> dict[str, Any]:
    """What a worker does: the status is "passed", "failed" or "none" (the form has no meaning)."""
    import error_runner
    import torch
    from opinfo_forms import CHECKS
    from opinfo_runner import FORMS, Case, Choice

    op, form = ops[unit["op"]], unit["form"]
    torch.tpu.reset_counters()
    if form == ERRORS:
        ran, failures = {ERRORS}, dict(error_runner.differences(op))
    else:
        more = () if form in FORMS else ((form, CHECKS[form]),)
        forms = (form,) if form in FORMS else ()
        choice = Choice(samples=unit["samples"], forms=forms, more=more)
        case = Case(op, getattr(torch, unit["dtype"]), choice)
        failures, ran = case.run(), case.ran
    fallbacks = sorted(torch.tpu.fallback_ops())
    failures.pop("fallback", None)
    counters = torch.tpu.counters()
    return {
        "status": "failed" if failures else "passed" if ran else "none",
        "failures": failures,
        "fallbacks": fallbacks,
        "compiles": counters["compiles"],
        "programs": counters["compiles"] + counters["disk_cache_hits"],
    }


def serve() -> None:
    """A worker: reads units, writes answers. What operators print goes to the log."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from error_runner import OPS

    made = 0
    for line in sys.stdin:
        start = time.monotonic()
        try:
            answer = run_unit(json.loads(line), OPS)
        except Exception as error:
            text = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            answer = {"status": "failed", "failures": {json.loads(line)["form"]: text}}
        made += answer.pop("programs", 0)
        answer["seconds"] = round(time.monotonic() - start, 2)
        answer["replace"] = made > PROGRAMS_OF_A_WORKER
        print(json.dumps(answer), file=answers, flush=True)


# ------------------------------------------------------------------------------------------ units


def all_units(options: argparse.Namespace) -> list[list[Unit]]:
    """The units, in groups of an operator and dtype."""
    from error_runner import OPS
    from opinfo_runner import FORMS, MORE_FORMS, cases, full_name

    forms = options.forms.split(",") if options.forms else [*FORMS, *MORE_FORMS, ERRORS]
    unknown = set(forms) - {*FORMS, *MORE_FORMS, ERRORS}
    if unknown:
        raise SystemExit(f"no form {sorted(unknown)}; there are {[*FORMS, *MORE_FORMS, ERRORS]}")
    mode = "debug" if options.debug else "strict"
    dtypes = options.dtypes.split(",") if options.dtypes else None

    def unit(op: str, dtype: str, form: str) -> Unit:
        return {"op": op, "dtype": dtype, "form": form, "mode": mode, "samples": options.samples}

    groups = []
    for op, dtype in cases(full=True):
        name, short = full_name(op), str(dtype).removeprefix("torch.")
        if re.search(options.pattern, name) and (dtypes is None or short in dtypes):
            groups.append([unit(name, short, form) for form in forms if form != ERRORS])
    if ERRORS in forms:
        names = [name for name in OPS if re.search(options.pattern, name)]
        groups += [[unit(name, "-", ERRORS)] for name in names]
    return groups[options.every // 2 :: options.every]


def read_results(path: Path) -> dict[Key, dict[str, Any]]:
    results = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return {key_of(result): result for result in results}


def drop_cut_line(path: Path) -> None:
    """The last line of a sweep that was stopped while it wrote it."""
    text = path.read_text() if path.exists() else ""
    if not text.endswith("\n"):
        path.write_text(text[: text.rfind("\n") + 1])


class Progress:
    """One line, rewritten on a terminal; elsewhere a line every half a minute."""

    def __init__(self, total: int):
        self.total, self.start, self.last = total, time.monotonic(), 0.0
        self.statuses: Counter[str] = Counter()

    def tell(self, where: str, status: str) -> None:
        self.statuses[status] += 1
        now, tty = time.monotonic(), sys.stderr.isatty()
        done = self.statuses.total()
        if now - self.last < (0.2 if tty else 30) and done < self.total:
            return
        self.last = now
        left = (now - self.start) / done * (self.total - done)
        counts = ", ".join(f"{n} {status}" for status, n in self.statuses.most_common())
        line = f"{done}/{self.total}, {left / 60:.0f} min left: {counts}; {where}"
        print(f"\r{line[:150]:150}" if tty else line, end="" if tty else "\n", file=sys.stderr)


def sweep(options: argparse.Namespace) -> None:
    drop_cut_line(options.results)
    finished = read_results(options.results)
    groups = [[u for u in group if key_of(u) not in finished] for group in all_units(options)]
    groups = [group for group in groups if group]
    progress = Progress(sum(map(len, groups)))
    mode = "debug" if options.debug else "strict"
    os.environ.update(MODES[mode], TORCH_TPU_CPU_FALLBACK="silent")
    os.environ["TORCH_TPU_CACHE_DIR"] = str(options.results.with_suffix(".cache").resolve())
    command = [sys.executable, str(Path(__file__).resolve()), "--worker"]
    with (
        options.results.open("a") as results,
        options.results.with_suffix(".log").open("a") as log,
    ):

        def done(unit: Unit, answer: dict[str, Any]) -> None:
            print(json.dumps(unit | answer), file=results, flush=True)
            where = f"{unit['op']} [{unit['dtype']}] {unit['form']}"
            progress.tell(where, answer["status"])

        worker_pool.run(command, groups, done, options.workers, options.timeout, log)


# ----------------------------------------------------------------------------------------- report


def judge(result: dict[str, Any], failing: dict, errors: dict) -> tuple[str, dict[str, str]]:
    """(the column of the table, what is new): "expected" if all that differs is listed. With all
    samples, what is listed must differ."""
    from opinfo_runner import reasons_of

    status, failures = result["status"], result.get("failures", {})
    if status in ("crash", "timeout"):
        failures = {result["form"]: f"{status}: {result['text']}"}
    if result["form"] == ERRORS:
        expected = errors.get(result["op"], {})
    else:
        expected = reasons_of(failing, result["op"], result["dtype"])
    new = {what: text for what, text in failures.items() if what not in expected}
    if new:
        return "failed", new
    if failures:
        return "expected", {}
    listed = failing.get(f"{result['op']} [{result['dtype']}]", {})
    if result["form"] in listed and status == "passed" and result["samples"] is None:
        return "failed", {result["form"]: "listed as an expected failure, but passes"}
    if result.get("fallbacks"):
        return "fallback", {}
    return status, {}


def report(results: dict[Key, dict[str, Any]]) -> int:
    """Print what is new and the table; the number of what is new."""
    import error_runner
    import opinfo_runner

    failing, errors = opinfo_runner.read_expected(sweep=True), error_runner.read_expected()
    table: dict[str, Counter[str]] = {}
    pairs: dict[tuple[str, str], bool] = {}
    count = 0
    for result in results.values():
        column, new = judge(result, failing, errors)
        form = result["form"] + (" (debug)" if result["mode"] == "debug" else "")
        table.setdefault(form, Counter())[column] += 1
        if result["form"] != ERRORS:
            pair = result["op"], result["dtype"]
            pairs[pair] = pairs.get(pair, True) and column in ("passed", "none")
        for what, text in new.items():
            count += 1
            print(f"{result['op']} [{result['dtype']}] {what}: {text}")
    columns = ("passed", "expected", "fallback", "failed", "none")
    print("\n| form | passed | expected failures | fallbacks | failed | has no such form |")
    print("|---|---|---|---|---|---|")
    for form, counts in table.items():
        print(f"| {form} | " + " | ".join(str(counts[c]) for c in columns) + " |")
    native = sum(pairs.values())
    share = f"{100 * native / max(len(pairs), 1):.2f} %"
    print(f"\n{native} of {len(pairs)} (operator, dtype) pairs pass natively in all forms: {share}")
    print(f"{sum(r.get('compiles', 0) for r in results.values())} distinct programs compiled")
    return count


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pattern", nargs="?", default="", help="of names of operators")
    parser.add_argument(
        "--results", type=Path, default=Path("sweep.jsonl"), help="default sweep.jsonl"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one unit")
    parser.add_argument("--every", type=int, default=1, help="N: only each Nth operator and dtype")
    parser.add_argument("--samples", type=int, help="N: only so many of the sample inputs")
    parser.add_argument("--forms", help="only these, separated by commas")
    parser.add_argument("--dtypes", help="only these, separated by commas")
    parser.add_argument("--debug", action="store_true", help="in Debug mode")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main() -> int:
    options = parse()
    if options.worker:
        serve()
        return 0
    if not options.report:
        sweep(options)
    return 1 if report(read_results(options.results)) else 0


if __name__ == "__main__":
    sys.exit(main())
