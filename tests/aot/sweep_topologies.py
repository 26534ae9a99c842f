"""Every program of the operator tests, compiled by libtpu for TPUs that are not there.

    python tests/aot/sweep_topologies.py FOLDER [--emit] [--topology NAME ...] [--results FILE]
                                         [--workers N] [--every N] [--timeout S] [--report]

FOLDER holds programs as TORCH_TPU_DUMP_TO writes them; --emit runs the fast tier of OpInfo first,
which writes its own there. Each answer is a line of the results file, so that a sweep that was
stopped goes on where it was. Programs are compiled in worker processes that may die or hang. At the
end, or with --report alone: the share that compiles for each topology, and what differs from
expected_failures.txt."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OPS = Path(__file__).resolve().parents[1] / "ops"
sys.path.insert(0, str(OPS))

import worker_pool  # noqa: E402
from sweep import Progress, drop_cut_line  # noqa: E402

TOPOLOGIES = ("v6e:1x1", "v5e:1x1", "tpu7x:1x1x1")
EXPECTED_FILE = Path(__file__).with_name("expected_failures.txt")
#: Programs for one topology, one after the other in a process.
GROUP = 16
#: A worker that has compiled so many is replaced: each takes memory.
PROGRAMS_OF_A_WORKER = 1000

#: operator, dtypes of operands and results, chip
Kind = tuple[str, str, str]
Answer = dict[str, Any]


# ---------------------------------------------------------------------------------------- workers


def serve() -> None:
    """A worker: reads units, writes answers. What libtpu prints goes to the log."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import torch  # noqa: F401  its libraries are those of the C++ side

    from torch_tpu._load import C
    from torch_tpu._plugin import find_libtpu

    compilers: dict[str, Any] = {}
    for count, line in enumerate(sys.stdin, 1):
        unit = json.loads(line)
        print(f"{unit['topology']} {unit['program']}", file=sys.stderr, flush=True)
        start = time.monotonic()
        topology = unit["topology"]
        if topology not in compilers:
            compilers[topology] = C.TopologyCompiler(find_libtpu(), topology)
        refusal = compilers[topology].refusal(Path(unit["folder"], unit["program"]).read_text())
        answer: Answer = {"status": "compiles"}
        if refusal is not None:
            code, message = refusal
            answer = {"status": "refused", "text": f"{code}: {message.partition(chr(10))[0]}"}
        answer["seconds"] = round(time.monotonic() - start, 2)
        answer["replace"] = count == PROGRAMS_OF_A_WORKER
        print(json.dumps(answer), file=answers, flush=True)


WORKER = [sys.executable, str(Path(__file__).resolve()), "--worker", "-"]


# ------------------------------------------------------------------------------------------ units


def emitting(folder: Path) -> dict[str, str]:
    """An environment in which the fast tier writes its programs, one for each operator."""
    others = ("TORCH_TPU_TEST_FULL", "TORCH_TPU_DEFER_AND_FUSE")
    environment = {name: value for name, value in os.environ.items() if name not in others}
    return environment | {"TORCH_TPU_DUMP_TO": str(folder.resolve())}


def emit(folder: Path) -> None:
    """The programs of the fast tier, as the tests make them; from the disk cache too."""
    command = [sys.executable, "-m", "pytest", "-q", str(OPS / "test_opinfo.py")]
    subprocess.run(command, env=emitting(folder), cwd=OPS.parent, check=True)


def libtpu_version() -> str:
    try:
        return importlib.metadata.version("libtpu")
    except importlib.metadata.PackageNotFoundError:  # TPU_LIBRARY_PATH may name one
        return "of no known version"


def programs_of(folder: Path, every: int = 1) -> list[str]:
    """Names of the files, by their hash: each Nth is a sample of all operators."""
    names = [file.name for file in folder.glob("*.mlir")]
    return sorted(names, key=lambda name: name.split(".")[1:])[::every]


def sweep(options: argparse.Namespace, command: list[str] | None = None) -> dict[tuple, Answer]:
    """Compiles what has no answer yet. All answers about these programs, by (topology, name)."""
    names = programs_of(options.folder, options.every)
    version = libtpu_version()
    drop_cut_line(options.results)
    results: dict[tuple, Answer] = {}
    for line in options.results.read_text().splitlines() if options.results.exists() else ():
        answer = json.loads(line)
        if answer["libtpu"] == version:
            results[answer["topology"], answer["program"]] = answer
    results = {key: a for key, a in results.items() if key[1] in set(names)}
    groups = []
    for topology in options.topology:
        left = [name for name in names if (topology, name) not in results]
        units = [
            {"topology": topology, "program": name, "folder": str(options.folder)} for name in left
        ]
        groups += [units[i : i + GROUP] for i in range(0, len(units), GROUP)]
    if options.report or not groups:
        return results
    from torch_tpu.aot.compile import ENVIRONMENT

    os.environ.update(ENVIRONMENT)
    progress = Progress(sum(map(len, groups)))
    with options.results.open("a") as file, options.results.with_suffix(".log").open("a") as log:

        def done(unit: dict[str, Any], answer: Answer) -> None:
            answer = {"topology": unit["topology"], "program": unit["program"], **answer}
            answer["libtpu"] = version
            results[answer["topology"], answer["program"]] = answer
            print(json.dumps(answer), file=file, flush=True)
            progress.tell(f"{answer['program']} {answer['topology']}", answer["status"])

        worker_pool.run(command or WORKER, groups, done, options.workers, options.timeout, log)
    return results


# ----------------------------------------------------------------------------------------- report


@dataclass(frozen=True)
class Expected:
    """A line of the list: so many programs of an operator and dtypes are refused for a chip."""

    count: int
    reason: str

    def matches(self, text: str) -> bool:
        """Where the reason has "...", the message may have anything."""
        return re.search(".*".join(map(re.escape, self.reason.split("..."))), text) is not None


def read_expected(path: Path = EXPECTED_FILE) -> dict[Kind, Expected]:
    """The list. Its lines: ``operator [dtypes] count on chips: reason``."""
    expected: dict[Kind, Expected] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\w+) \[([^]]*)\] (\d+) on ([\w, ]+): (.+)", line)
        if match is None:
            raise ValueError(f"{path.name}:{number}: no 'operator [dtypes] count on chips: reason'")
        for chip in match[4].split(", "):
            kind = (match[1], match[2], chip)
            if kind in expected:
                raise ValueError(f"{path.name}:{number}: a second line about {' '.join(kind)}")
            expected[kind] = Expected(int(match[3]), match[5])
    return expected


def dtypes_of(text: str) -> str:
    """The dtypes of a program's operands and results, each once: "f32, i64"."""
    signature = re.search(r"@main\(.*", text)
    assert signature is not None
    found = re.findall(r"tensor<(?:[\d?]+x)*(complex<\w+>|\w+)", signature[0])
    return ", ".join(sorted(set(found)))


def problems_of(
    results: dict[tuple, Answer], folder: Path, expected: dict[Kind, Expected], whole: bool
) -> list[str]:
    """What differs from the list. With all programs, as many must be refused as it says."""
    problems, counts, tried = [], Counter[Kind](), set()
    for (topology, name), answer in sorted(results.items()):
        chip = topology.partition(":")[0]
        tried.add(chip)
        if answer["status"] == "compiles":
            continue
        kind = (name.split(".")[0], dtypes_of((folder / name).read_text()), chip)
        text = f"{answer['status']}: {answer['text']}"
        if kind in expected and expected[kind].matches(text):
            counts[kind] += 1
        else:
            problems.append(f"{name} [{kind[1]}] {topology}: {text}")
    for (operator, dtypes, chip), entry in expected.items():
        count = counts[operator, dtypes, chip]
        if count > entry.count or (whole and chip in tried and count < entry.count):
            problems.append(
                f"{operator} [{dtypes}] {chip}: {entry.count} programs are listed as expected "
                f"failures, {count} fail so"
            )
    return problems


def report(results: dict[tuple, Answer], options: argparse.Namespace) -> int:
    """Prints what differs from the list and the shares; the number of the former."""
    problems = problems_of(results, options.folder, read_expected(), options.every == 1)
    for problem in problems:
        print(problem)
    print(f"libtpu {libtpu_version()}:")
    names = programs_of(options.folder, options.every)
    for topology in options.topology:
        none = {"status": "without an answer"}
        answers = [results.get((topology, name), none) for name in names]
        counts = Counter(answer["status"] for answer in answers)
        share = f"{100 * counts['compiles'] / len(answers):.2f} %"
        more = "".join(f", {n} {s}" for s, n in counts.most_common() if s != "compiles")
        seconds = sum(answer.get("seconds", 0) for answer in answers)
        print(
            f"{topology}: {counts['compiles']} of {len(answers)} programs compile ({share}){more}; "
            f"{seconds:.0f} s"
        )
    print(f"{len(problems)} differences from {EXPECTED_FILE.name}")
    return len(problems)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of the programs")
    parser.add_argument("--emit", action="store_true", help="first write those of the fast tier")
    parser.add_argument("--topology", nargs="+", default=TOPOLOGIES, help="default: %(default)s")
    parser.add_argument("--results", type=Path, help="default: FOLDER/results.jsonl")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one program")
    parser.add_argument("--every", type=int, default=1, help="N: only each Nth program")
    parser.add_argument("--report", action="store_true", help="compile nothing")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.results = options.results or options.folder / "results.jsonl"
    return options


def main() -> int:
    options = parse()
    if options.worker:
        serve()
        return 0
    from torch_tpu._plugin import find_libtpu

    if find_libtpu() is None:
        raise SystemExit("the TPU's compiler is not installed: pip install libtpu")
    if options.emit:
        emit(options.folder)
    if not programs_of(options.folder):
        raise SystemExit(f"{options.folder} has no programs: --emit writes those of the tests")
    return 1 if report(sweep(options), options) else 0


if __name__ == "__main__":
    sys.exit(main())
