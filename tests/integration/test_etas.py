"""Many messages with an ETA: how many a worker keeps, and what it holds when they have gone."""

from __future__ import annotations

import pytest

from tests.brokers import Space
from tests.integration.depths import left, unsettled
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import StartWorker, WorkerProcess

WINDOW = 4
FAIR = {"fair_queues": {"a": {"prefetch": WINDOW}, "b": {"prefetch": WINDOW}}}
QUEUES = ["a", "b"]
LIMIT = 30


def scheduled(worker: WorkerProcess, queue: str) -> int:
    """How many messages of a queue wait for their ETA at the worker."""
    entries = worker.inspect("scheduled")
    return sum(e["request"]["delivery_info"]["routing_key"] == queue for e in entries)


@pytest.mark.parametrize("fetch", ["push", "pull"])
def test_no_more_are_kept_than_the_limit(
    space: Space, start_worker: StartWorker, fetch: str
) -> None:
    options = {"prefetch": WINDOW} if fetch == "push" else {"fetch": "pull"}
    conf = {"worker_eta_task_limit": LIMIT, "fair_queues": dict.fromkeys(QUEUES, options)}
    publish(space.url, {"a": 3 * LIMIT}, countdown=600)
    worker = start_worker(space, pool="threads", queues=QUEUES, conf=conf)
    wait_equal(lambda: scheduled(worker, "a"), LIMIT)

    worker.records.started.wait_once(publish(space.url, {"b": 3 * WINDOW}).all())  # in no one's way
    assert scheduled(worker, "a") == LIMIT
    wait_equal(lambda: unsettled(space, *QUEUES), LIMIT)


def test_with_room_again_more_are_taken(space: Space, start_worker: StartWorker) -> None:
    conf = {"worker_eta_task_limit": LIMIT, **FAIR}
    worker = start_worker(space, pool="threads", queues=QUEUES, conf=conf)
    assert worker.inspect("ping")
    first = publish(space.url, {"a": LIMIT}, countdown=8)
    wait_equal(lambda: scheduled(worker, "a"), LIMIT)
    publish(space.url, {"b": 2 * LIMIT}, countdown=600)
    wait_equal(lambda: scheduled(worker, "b"), WINDOW)

    worker.records.started.wait_once(first.all())
    wait_equal(lambda: scheduled(worker, "b"), LIMIT)


def test_after_them_the_window_is_as_small_as_before(
    space: Space, start_worker: StartWorker
) -> None:
    worker = start_worker(space, pool="threads", queues=QUEUES, conf=FAIR)
    etas = publish(space.url, {"a": 50 * WINDOW}, countdown=2)
    worker.records.started.wait_once(etas.all())

    worker.records.started.wait_once(publish(space.url, {"a": 1}).all())
    wait_equal(lambda: worker.inspect("stats")["fair"]["a"]["window"], WINDOW)
    wait_equal(lambda: left(space, *QUEUES), 0)
