"""On a worker without the bootstep the check holds; on any, what Celery does not start is gone."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
import redis
from kombu import Connection, Exchange, Queue

from tests.brokers import Space
from tests.integration.depths import left, unsettled
from tests.integration.gate import Gate
from tests.once.conftest import DeadLetters
from tests.once.test_once import APP, QUEUES, SHORT
from tests.publishing import publish, publish_raw
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker


@pytest.mark.either_broker
@pytest.mark.parametrize("task", ["before", "after"])
def test_without_the_bootstep(
    space: Space, start_worker: StartWorker, gate: Gate, dead_letters: DeadLetters, task: str
) -> None:
    """What was delivered before does not start, and fresh messages run."""
    options = {"app": APP, "pool": "threads", "queues": QUEUES, "conf": SHORT, "fair": False}
    first = start_worker(space, **options)
    held = publish(space.url, {"a": 1}, task, [str(gate.path)]).all()
    first.records.started.wait_ids(held)
    waiting = publish(space.url, {"a": 3}, task).all()
    expected = waiting if task == "before" else [*held, *waiting]
    # kombu takes a message off Redis first, and writes down that it has it then
    wait_equal(lambda: unsettled(space, *QUEUES), len(expected))
    first.kill()
    first.process.end()
    if space.kind == "redis":  # kombu looks when it starts, and then every 100 seconds
        wait_for(lambda: all_are_overdue(space.url), 30, "the visibility timeout")

    second = start_worker(space, **options)

    wait_equal(lambda: sorted(dead_letters()), sorted(expected), timeout=30)
    assert {letter["x-fair-reason"] for letter in dead_letters().values()} == {"redelivered"}
    second.records.finished.wait_once(publish(space.url, {"a": 5}, task).all())
    assert second.records.started.repeated() == []
    wait_equal(lambda: left(space, *QUEUES), 0)


def all_are_overdue(url: str) -> bool:
    timeout = SHORT["broker_transport_options"]["visibility_timeout"]
    with redis.Redis.from_url(url) as client:
        return not client.zcount("unacked_index", time.time() - timeout, "+inf")


@pytest.mark.parametrize("task", ["noop", "before", "after"])
def test_expired_and_revoked(
    space: Space, start_worker: StartWorker, dead_letters: DeadLetters, task: str
) -> None:
    past = datetime.now(UTC) - timedelta(hours=1)
    late = publish(space.url, {"a": 3}, task, expires=past).all()  # more than a window has
    worker = start_worker(space, app=APP, queues=QUEUES)  # in no time do they come once more
    later = publish(space.url, {"a": 2}, task, countdown=600).all()
    wait_equal(lambda: len(worker.inspect("scheduled")), len(later))
    assert worker.control("revoke", task_id=later)
    again = publish(space.url, {"a": 1}, task).all()
    worker.records.started.wait_once(again)

    wait_equal(lambda: left(space, *QUEUES), 2)  # Celery looks at them again when they come due
    assert not worker.records.started.times([*late, *later])
    assert dead_letters() == {}


@pytest.mark.either_broker
def test_what_is_to_be_claimed_elsewhere_is_not_lost_though_its_queue_is_not_known(
    space: Space, start_worker: StartWorker, dead_letters: DeadLetters
) -> None:
    """By a worker without the bootstep: a queue is called otherwise than what leads to it."""
    with Connection(space.url) as connection:
        queue = Queue("a", Exchange("work"), routing_key="work.a")
        queue(connection.channel()).declare()
    headers = {"id": "lost", "task": "before", "x-fair-ledger": "another"}
    known = {"content_type": "application/json", "content_encoding": "utf-8"}
    publish_raw(space.url, "work.a", "[[], {}, {}]", exchange="work", headers=headers, **known)
    start_worker(space, app=APP, pool="threads", queues=["a"], conf=SHORT, fair=False)
    wait_equal(lambda: list(dead_letters()), ["lost"])
    assert dead_letters()["lost"]["x-fair-may-have-started"] is False
    wait_equal(lambda: left(space, "a"), 0)
