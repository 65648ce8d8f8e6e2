"""Caps: never more at once than allowed, and nothing idle because of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from tests.apps.recorder import Record
from tests.live.conftest import THREADS, Ask
from tests.publishing import publish
from tests.workers import WorkerProcess


class Running:
    """What ran when, of the tasks of these ids."""

    def __init__(self, worker: WorkerProcess, ids: Iterable[str]) -> None:
        wanted = set(ids)
        self.starts = self._of(worker.records.started.read(), wanted)
        self.ends = self._of(worker.records.finished.read(), wanted)

    @staticmethod
    def _of(records: list[Record], wanted: set[str]) -> list[int]:
        return sorted(record.monotonic_ns for record in records if record.id in wanted)

    def most(self) -> int:
        """How many ran at once, at the most."""
        changes = sorted([(at, 1) for at in self.starts] + [(at, -1) for at in self.ends])
        return max(accumulate(change for _, change in changes))

    def mean(self) -> float:
        """How many ran at once, on average."""
        return (sum(self.ends) - sum(self.starts)) / (self.ends[-1] - self.starts[0])


def test_cap_holds_at_every_instant_and_leaves_no_slot_idle(worker: WorkerProcess) -> None:
    ids = publish(worker.broker_url, {"capped": 60, "rest": 250}, "nap", [0.05])
    worker.records.finished.wait_once(ids.all())

    assert Running(worker, ids["capped"]).most() == 2
    together = Running(worker, ids.all())
    assert together.most() == THREADS
    assert together.mean() >= 0.5 * THREADS


def test_cap_that_is_changed(worker: WorkerProcess, ask: Ask) -> None:
    assert "ok" in ask("set", "capped", max_in_flight=5)
    wider = publish(worker.broker_url, {"capped": 40}, "nap", [0.1])
    worker.records.finished.wait_once(wider.all())
    assert Running(worker, wider.all()).most() == 5

    assert "ok" in ask("set", "capped", max_in_flight=None)
    free = publish(worker.broker_url, {"capped": 60}, "nap", [0.1])
    worker.records.finished.wait_once(free.all())
    assert Running(worker, free.all()).most() == THREADS

    assert "ok" in ask("set", "capped", max_in_flight=2)
