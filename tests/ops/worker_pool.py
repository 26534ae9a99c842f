"""Units of work in worker processes that may die or hang: a unit is then told as such, and the
worker is replaced.

A worker is a command that reads a unit as a line of JSON from its standard input and answers with a
line of JSON on its standard output."""

from __future__ import annotations

import contextlib
import json
import queue
import select
import subprocess
import threading
from collections.abc import Callable, Iterable
from typing import Any

Unit = dict[str, Any]
Answer = dict[str, Any]


class Worker:
    def __init__(self, command: list[str], log: Any):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        )

    def ask(self, unit: Unit, seconds: float) -> Answer:
        """The answer, or {"status": "crash" or "timeout", "text": how}."""
        try:
            self.process.stdin.write(json.dumps(unit).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return self._crash()
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        if not ready:
            self.close()
            return {"status": "timeout", "text": f"no answer in {seconds:g} s"}
        line = self.process.stdout.readline()
        return json.loads(line) if line.endswith(b"\n") else self._crash()

    def _crash(self) -> Answer:
        code = self.process.wait()
        self.close()
        return {"status": "crash", "text": f"the process ended with {code}"}

    def alive(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):  # a unit that a dead process did not read
                pipe.close()


def run(
    command: list[str],
    groups: Iterable[list[Unit]],
    done: Callable[[Unit, Answer], None],
    workers: int,
    seconds: float,
    log: Any = None,
) -> None:
    """Ask for all units of the groups, a group in one process unless that ends; ``done`` is called
    with each answer, by one thread at a time. An answer with "replace" asks for a fresh process."""
    waiting: queue.SimpleQueue[list[Unit]] = queue.SimpleQueue()
    for group in groups:
        waiting.put(group)
    lock = threading.Lock()

    def work() -> None:
        worker = None
        while True:
            try:
                group = waiting.get_nowait()
            except queue.Empty:
                break
            for unit in group:
                if worker is None or not worker.alive():
                    worker = Worker(command, log)
                answer = worker.ask(unit, seconds)
                if answer.pop("replace", False):
                    worker.close()
                with lock:
                    done(unit, answer)
        if worker is not None:
            worker.close()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
