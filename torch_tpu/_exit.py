"""Ending the interpreter right after ``backward()``.

backward() runs a device's nodes in a thread of the autograd engine and returns when the last of
them is done; the thread then lets go of the call's state. In PyTorch 2.13 that holds a Python
object (``torch/autograd/graph.py`` stashes the context for the device's threads), for which the
thread takes the interpreter's lock. If the interpreter is ending by then, Python ends the thread
there, C++ does not let it, and the process dies by SIGABRT ("terminate called without an active
exception") after all its work was done.
"""

from __future__ import annotations

import atexit
import time
from pathlib import Path

#: Seconds. A thread at rest is seen at once; one that still computes, for a daemon thread that was
#: left in backward(), is waited for no longer than this.
_LONGEST_WAIT = 1.0
_INTERVAL = 0.001


def register() -> None:
    """Has the threads of autograd come to rest before the interpreter ends."""
    atexit.register(_wait_for_autograd)


def _wait_for_autograd() -> None:
    """Sleeps, without the lock, until each thread of autograd sleeps too.

    While this thread sleeps the lock is free, so one that sleeps then does not wait for the lock,
    but for work; seen twice, since it may have been about to take it.
    """
    threads = _threads_of_autograd()
    end = time.monotonic() + _LONGEST_WAIT
    at_rest = 0
    while threads and at_rest < 2 and time.monotonic() < end:
        time.sleep(_INTERVAL)
        at_rest = at_rest + 1 if all(map(_sleeps, threads)) else 0


def _threads_of_autograd() -> list[Path]:
    """Their folders in /proc; none where there is no /proc."""
    return [
        thread
        for thread in Path("/proc/self/task").glob("*")
        if _read(thread / "comm").startswith("pt_autograd")
    ]


def _sleeps(thread: Path) -> bool:
    """True if the thread waits for something, or has ended."""
    state = _read(thread / "stat").rpartition(")")[2].split()  # after the name, in parentheses
    return not state or state[0] == "S"


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # the thread has ended
        return ""
