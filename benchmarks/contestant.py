"""A worker that runs only while it is measured.

Contestants live side by side, each on a place of the broker of its own, stopped by SIGSTOP; in turn
each is let run for a moment. So neighbours in time are compared, whatever else the machine does,
and nobody's start counts.
"""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from time import monotonic
from typing import Any

from benchmarks.counts import Counts
from tests.brokers.space import Server
from tests.publishing import publish
from tests.waiting import wait_for
from tests.workers import WorkerProcess, starting_workers

__all__ = ["LEAD", "Contestant", "Run", "contestant"]

LEAD = 0.4
"""Seconds at the beginning of each turn."""


@dataclass(frozen=True)
class Run:
    """What a contestant did while it ran."""

    tasks: int
    seconds: float
    cpu: float
    """Processor seconds of the worker, all its processes."""

    @property
    def speed(self) -> float:
        return self.tasks / self.seconds

    @property
    def cost(self) -> float:
        return self.cpu / max(1, self.tasks)


class Contestant:
    """A worker, its backlog, and its runs so far."""

    def __init__(
        self, name: str, worker: WorkerProcess, queues: Mapping[str, int], task: str
    ) -> None:
        self.name = name
        self._task = task
        self.runs: list[Run] = []
        self.worker = worker
        self._counts = Counts(worker.records.prefix)
        self._queues = queues
        self._published = 0

    def refill(self, least: int) -> None:
        """See to a backlog of at least so many tasks."""
        missing = least - (self._published - len(self._counts))
        if missing > 0:
            each = {
                name: missing * part // sum(self._queues.values()) + 1
                for name, part in self._queues.items()
            }
            self._publish(each)
            self._published += sum(each.values())

    def _publish(self, counts: Mapping[str, int]) -> None:
        publish(self.worker.broker_url, counts, self._task, persistent=False)

    def run(self, seconds: float) -> Run:
        """Let it work for so long, and before that for a moment that does not count.

        What was prefetched before it was stopped, and how long it took the broker to answer while
        it was, has no part in what is measured then.
        """
        worker = self.worker
        with self.awake():
            Event().wait(LEAD)
            before, cpu, began = len(self._counts), worker.cpu_seconds(), monotonic()
            Event().wait(seconds)
            passed, after = monotonic() - began, len(self._counts)
            cpu = worker.cpu_seconds() - cpu
        run = Run(after - before, passed, cpu)
        self.runs.append(run)
        return run

    def warm_up(self, tasks: int) -> None:
        """Let it work until it has done so many tasks."""
        with self.awake():
            wait_for(lambda: len(self._counts) >= tasks, 60, f"{tasks} tasks")

    @contextmanager
    def awake(self) -> Iterator[None]:
        self._signal(signal.SIGCONT)
        try:
            yield
        finally:
            self._signal(signal.SIGSTOP)

    def _signal(self, number: int) -> None:
        os.killpg(self.worker.pid, number)


@contextmanager
def contestant(
    name: str,
    server: Server,
    queues: Mapping[str, int],
    task: str = "plain",
    kind: type[Contestant] = Contestant,
    **options: Any,
) -> Iterator[Contestant]:
    """Start a worker (see `WorkerProcess` for the options), asleep; `queues` weighs its backlog."""
    space = server.space()
    options.setdefault("app", "benchmarks.counted")
    with TemporaryDirectory() as folder, starting_workers(Path(folder)) as start:
        found = kind(name, start(space, queues=list(queues), **options), queues, task)
        found._signal(signal.SIGSTOP)
        yield found
