"""Pulled queues: a busy worker holds no other message, and an idle one gets it at once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.brokers import Space
from tests.integration.gate import Gate
from tests.once.test_once import APP
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import StartWorker

CONF: dict[str, Any] = {"fair_queues": {"a": {"fetch": "pull"}}}
WORKERS, WAITING, SAMPLES = 4, 20, 100
NOTHING = (0, 0)


def depth(space: Space) -> tuple[int, int]:
    """Messages that wait at the broker, and those at workers."""
    depths = space.depths()
    at_workers = "a" if space.kind == "rabbitmq" else "unacked"
    waiting, held = depths.get("a", NOTHING), depths.get(at_workers, NOTHING)
    return waiting[0], held[1]


@pytest.mark.wide
def test_four_workers(space: Space, start_worker: StartWorker, gate: Gate) -> None:
    workers = [
        start_worker(space, wait=False, app=APP, pool="threads", queues=["a"], conf=CONF)
        for _ in range(WORKERS)
    ]
    for worker in workers:
        worker.wait_ready()
    started = workers[0].records.started
    one = Gate()
    held = publish(space.url, {"a": WORKERS - 1}, "before", [str(gate.path)]).all()
    held += publish(space.url, {"a": 1}, "before", [str(one.path)]).all()
    busy = {record.pid for record in started.wait_once(held)}
    assert len(busy) == WORKERS

    waiting = publish(space.url, {"a": WAITING}, "before").all()
    wait_equal(lambda: depth(space), (WAITING, 0))  # acknowledgements may be under way
    for _ in range(SAMPLES):
        assert depth(space) == (WAITING, 0)

    one.open()
    (free,) = {record.pid for record in started.wait_once(waiting)}
    wait_equal(lambda: depth(space), NOTHING)
    for _ in range(SAMPLES):
        assert depth(space) == NOTHING

    for _ in range(10):
        (record,) = started.wait_once(publish(space.url, {"a": 1}, "before").all())
        assert record.pid == free
    gate.open()
    workers[0].records.finished.wait_once(held)
    wait_equal(lambda: depth(space), NOTHING)
    assert started.repeated() == []
