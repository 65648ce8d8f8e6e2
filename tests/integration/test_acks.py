"""Late acknowledgements: what was not finished is delivered again, and nothing else."""

from __future__ import annotations

import pytest

from tests.brokers import Space
from tests.faults.proxy import Proxy
from tests.integration.depths import left, ready, unsettled
from tests.integration.gate import Gate
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
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


def test_what_was_buffered_does_not_start_after_a_cut(
    rabbitmq_space: Space, start_worker: StartWorker, gate: Gate
) -> None:
    """It comes again, and would run twice."""
    with Proxy(rabbitmq_space) as proxy:
        options = {"pool": "threads", "queues": ["a"], "conf": LATE | {"fair_queues": {}}}
        worker = start_worker(proxy.url, args=["--prefetch-multiplier", "10"], **options)
        plug = publish(rabbitmq_space.url, {"a": 1}, "hold", [str(gate.path)]).all()
        worker.records.started.wait_ids(plug)
        ids = publish(rabbitmq_space.url, {"a": 20}).all()
        wait_equal(lambda: ready(rabbitmq_space, "a") < 20, True)
        proxy.cut()
        wait_for(lambda: "Connection to broker lost" in worker.log(), 30, worker.log)
        gate.open()

        worker.records.started.wait_ids(ids)

        wait_equal(lambda: left(rabbitmq_space, "a"), 0)
        assert worker.records.started.times(ids) == dict.fromkeys(ids, 1)


def test_the_broker_sends_a_window(
    rabbitmq_space: Space, start_worker: StartWorker, gate: Gate
) -> None:
    """Of each queue its own, and no more."""
    windows = {"a": 2, "b": 5}
    conf = {"fair_queues": {name: {"prefetch": size} for name, size in windows.items()}}
    worker = start_worker(rabbitmq_space, queues=list(windows), conf=conf)
    gate.hold(worker, "a")

    publish(rabbitmq_space.url, dict.fromkeys(windows, 20))

    def held() -> list[tuple[int, int]]:
        depths = rabbitmq_space.depths()  # what runs counts, too, until it is acknowledged
        return [(depths[name].unacked, depths[name].ready) for name in windows]

    wait_equal(held, [(2, 18), (5, 15)])
