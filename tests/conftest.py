"""Tells at the end how many programs the tests made: what compiling costs is a number of theirs."""

import sys
from collections import Counter

import pytest

NAMES = ("compiles", "disk_cache_hits")
#: Of all processes of the run; in a process, what was counted before the last reset.
TOTAL: Counter[str] = Counter()


def count() -> None:
    counters = sys.modules["torch"].tpu.counters()
    TOTAL.update({name: counters[name] for name in NAMES})


def pytest_collection_finish() -> None:
    """Tests reset the counters; what they had counted is kept."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "tpu"):
        return
    reset = torch.tpu.reset_counters

    def counted_reset() -> None:
        count()
        reset()

    torch.tpu.reset_counters = counted_reset


def pytest_sessionfinish(session: pytest.Session) -> None:
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "tpu"):
        count()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["programs"] = dict(TOTAL)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:
    """Of pytest-xdist, in the controlling process."""
    TOTAL.update(getattr(node, "workeroutput", {}).get("programs", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    compiled, loaded = (TOTAL[name] for name in NAMES)
    terminalreporter.write_line(
        f"{compiled + loaded} programs: {compiled} compiled, {loaded} from the disk cache"
    )
