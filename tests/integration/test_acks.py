"""Late acknowledgements: what was not finished is delivered again, and nothing else."""

from __future__ import annotations

import pytest

from tests.brokers import Space
from tests.integration.depths import left, unsettled
from tests.integration.gate import Gate
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import StartWorker

LATE = {
    "task_acks_late": True,
    "fair_queues": {"a": {"prefetch": 2}},
    "broker_transport_options": {"visibility_timeout": 2},
}


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_task_of_a_killed_worker_is_delivered_again(
    space: Space, start_worker: StartWorker, gate: Gate, pool: str
) -> None:
    first = start_worker(space, pool=pool, queues=["a"], conf=LATE)
    held = gate.hold(first, "a")
    first.kill()
    first.process.end()
    gate.open()

    second = start_worker(space, pool=pool, queues=["a"], conf=LATE)

    second.records.finished.wait_once(held)
    assert second.records.started.times(held)[held[0]] == 2
    wait_equal(lambda: left(space, "a"), 0)


def test_more_late_acks_in_flight_than_the_window(
    space: Space, start_worker: StartWorker, gate: Gate
) -> None:
    slow = LATE | {"broker_transport_options": {"visibility_timeout": 600}}
    worker = start_worker(space, pool="threads", concurrency=8, queues=["a"], conf=slow)

    held = gate.hold(worker, "a", 8)
    wait_equal(lambda: unsettled(space, "a") >= 8, True)
    gate.open()

    worker.records.finished.wait_once(held)
    wait_equal(lambda: left(space, "a"), 0)


def test_late_ack_of_a_failed_task(space: Space, start_worker: StartWorker) -> None:
    worker = start_worker(space, queues=["a"], conf=LATE)
    worker.records.started.wait_once(publish(space.url, {"a": 3}, "fail").all())
    wait_equal(lambda: left(space, "a"), 0)
