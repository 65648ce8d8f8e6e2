"""Exclusive consumption: one worker a queue, and a second that waits for it."""

from __future__ import annotations

from typing import Any

from tests.brokers import Space
from tests.publishing import publish
from tests.waiting import wait_for
from tests.workers import StartWorker, WorkerProcess

FAIR: dict[str, Any] = {"fair_queues": {"mine": {"exclusive": True}, "ours": {}}}
QUORUM = {"x-queue-type": "quorum"}
SINGLE_ACTIVE = QUORUM | {"x-single-active-consumer": True}


def test_second_worker_is_refused_and_takes_over(
    rabbitmq_space: Space, start_worker: StartWorker
) -> None:
    url = rabbitmq_space.url
    first = start_worker(rabbitmq_space, conf=FAIR)
    second = start_worker(rabbitmq_space, conf=FAIR, loglevel="INFO")
    wait_for(lambda: "Cannot consume queue mine" in second.log(), 30, second.log)
    assert "exclusive use" in second.log()

    ids = publish(url, {"mine": 50, "ours": 50})
    starts = first.records.started.wait_once(ids.all())
    assert {record.pid for record in starts if record.queue == "mine"} == {first.pid}
    assert statuses(second) == {"celery", "ours"}

    assert first.stop() == 0
    ids = publish(url, {"mine": 50})
    second.records.started.wait_once(ids.all())
    assert "Queue mine is consumed now" in second.log()
    assert "Traceback" not in second.log()
    assert statuses(second) == {"celery", "mine", "ours"}


def statuses(worker: WorkerProcess) -> set[str]:
    return set(worker.control("fair_status"))


def test_exclusive_queue_keeps_its_share(rabbitmq_space: Space, start_worker: StartWorker) -> None:
    conf = {"fair_queues": {"mine": {"exclusive": True, "quantum": 3}, "ours": {"quantum": 1}}}
    ids = publish(rabbitmq_space.url, {"mine": 900, "ours": 300}, "spin", [100])
    worker = start_worker(rabbitmq_space, conf=conf)

    starts = [record.queue for record in sorted(worker.records.started.wait_once(ids.all()))]

    both = [number for number, queue in enumerate(starts) if queue == "ours"][19]
    mine = starts[both : both + 600].count("mine")
    assert 440 <= mine <= 460, mine


def test_single_active_consumer_of_a_quorum_queue(
    rabbitmq_space: Space, start_worker: StartWorker
) -> None:
    url = rabbitmq_space.url
    first = start_worker(rabbitmq_space, conf=FAIR, queues=["mine"], queue_arguments=QUORUM)
    second = start_worker(rabbitmq_space, conf=FAIR, queues=["mine"], queue_arguments=QUORUM)

    ids = publish(url, {"mine": 400}, "spin", [500], queue_arguments=SINGLE_ACTIVE)
    starts = first.records.started.wait_once(ids.all())
    assert {record.pid for record in starts} == {first.pid}

    assert first.stop() == 0
    ids = publish(url, {"mine": 50}, queue_arguments=SINGLE_ACTIVE)
    starts = second.records.started.wait_once(ids.all())
    assert {record.pid for record in starts} == {second.pid}
    assert "Cannot consume" not in second.log()


def test_broker_that_cannot_do_it(redis_space: Space, start_worker: StartWorker) -> None:
    worker = start_worker(redis_space, conf=FAIR, wait=False)

    assert worker.wait() != 0
    assert "fair_queues['mine']['exclusive']: this broker" in worker.log()
