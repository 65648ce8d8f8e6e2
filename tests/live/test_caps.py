"""Caps: never more at once than allowed, and nothing idle because of them."""

from __future__ import annotations

import pytest

from tests.integration.gate import Gate, closing_gate
from tests.live.conftest import THREADS, Ask
from tests.live.running import Running
from tests.publishing import publish
from tests.workers import WorkerProcess


def ran(worker: WorkerProcess, ids: list[str]) -> Running:
    worker.records.finished.wait_once(ids)
    return Running(worker.records, ids)


def test_cap_holds_at_every_instant(worker: WorkerProcess) -> None:
    ids = publish(worker.broker_url, {"capped": 20, "rest": 80}, "nap", [0.2])
    together = ran(worker, ids.all())

    assert ran(worker, ids["capped"]).most() == 2
    assert together.most() == THREADS


def test_cap_leaves_no_slot_idle(worker: WorkerProcess, gate: Gate) -> None:
    """Nor is anything else needed for it that happens: all that runs meanwhile is held."""
    records = worker.records
    with closing_gate() as of_capped:
        held = of_capped.hold(worker, "capped", 2)
        behind = publish(worker.broker_url, {"capped": 5})
        gate.hold(worker, "rest", THREADS - 3)
        records.started.wait_once(publish(worker.broker_url, {"rest": 50}).all())  # on one slot
        gate.hold(worker, "rest")
        last = publish(worker.broker_url, {"rest": 5})
        assert not records.started.times([*behind.all(), *last.all()])

    records.finished.wait_once(held)
    records.started.wait_once([*behind.all(), *last.all()])


@pytest.mark.either_broker
def test_cap_that_is_changed(worker: WorkerProcess, ask: Ask) -> None:
    assert "ok" in ask("set", "capped", max_in_flight=5)
    wider = publish(worker.broker_url, {"capped": 20}, "nap", [0.2])
    assert ran(worker, wider.all()).most() == 5

    assert "ok" in ask("set", "capped", max_in_flight=None)
    free = publish(worker.broker_url, {"capped": 30}, "nap", [0.2])
    assert ran(worker, free.all()).most() == THREADS

    assert "ok" in ask("set", "capped", max_in_flight=2)
