"""Non-repeatable tasks on real workers: what may have started never starts again."""

from __future__ import annotations

from typing import Any

import pytest
from kombu import Connection

from tests.brokers import Space
from tests.integration.depths import left, ready
from tests.integration.gate import Gate
from tests.once.conftest import DeadLetters
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker

APP = "tests.apps.once"
QUEUES = ["a", "b"]
CONF: dict[str, Any] = {
    "fair_queues": {"a": {"quantum": 1}, "b": {"quantum": 3}},
    "broker_transport_options": {"visibility_timeout": 600},
}
SHORT = CONF | {"broker_transport_options": {"visibility_timeout": 2}}
POOLS = ["threads", "prefork"]
SOON = 60
"""Seconds in which another worker has what a killed one had; on Redis one of them returns it."""


@pytest.mark.parametrize("pool", ["solo", *POOLS])
@pytest.mark.parametrize("task", ["before", "after", "confirmed"])
def test_fresh_messages_run(
    space: Space, start_worker: StartWorker, dead_letters: DeadLetters, pool: str, task: str
) -> None:
    ids = publish(space.url, dict.fromkeys(QUEUES, 50), task)
    worker = start_worker(space, app=APP, pool=pool, concurrency=2, queues=QUEUES, conf=CONF)

    worker.records.finished.wait_once(ids.all())

    wait_equal(lambda: left(space, *QUEUES), 0)
    assert dead_letters() == {}
    assert worker.records.started.repeated() == []


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("task", ["before", "after"])
def test_killed_worker(
    space: Space,
    start_worker: StartWorker,
    gate: Gate,
    dead_letters: DeadLetters,
    pool: str,
    task: str,
) -> None:
    """Started twice: none. What was published: finished, dead-lettered, or started and lost."""
    options: dict[str, Any] = {"app": APP, "pool": pool, "queues": QUEUES, "conf": SHORT}
    first = start_worker(space, concurrency=2, **options)
    held = publish(space.url, {"a": 2}, task, [str(gate.path)]).all()
    records = first.records
    records.started.wait_ids(held)
    ids = publish(space.url, dict.fromkeys(QUEUES, 30), task).all()
    if space.kind == "rabbitmq":  # from Redis nothing is taken while no slot is free
        wait_for(lambda: ready(space, *QUEUES) < 60, 30, "messages to be buffered")
    first.kill()
    first.process.end()

    second = start_worker(space, concurrency=2, **options)

    unfinished = set(held) if task == "before" else set()
    wanted = {*held, *ids} - unfinished
    wait_for(
        lambda: {r.id for r in records.finished.read()} | dead_letters().keys() >= wanted,
        SOON,
        lambda: f"{wanted - {r.id for r in records.finished.read()} - dead_letters().keys()}",
    )
    assert records.started.repeated() == []
    dead = dead_letters()
    assert not dead.keys() & {r.id for r in records.finished.read()}
    assert {r.id for r in records.finished.read()} | dead.keys() == wanted
    if task == "after":
        letter = dead[held[0]]
        assert letter["x-fair-reason"] == "redelivered"
        assert letter["x-fair-queue"] == "a"
        assert letter["x-fair-worker"] == second.hostname
        assert letter["x-fair-may-have-started"] is True
        assert letter["task"] == "after"


@pytest.mark.parametrize("task", ["before", "after"])
def test_warm_shutdown_dead_letters_nothing(
    space: Space, start_worker: StartWorker, gate: Gate, dead_letters: DeadLetters, task: str
) -> None:
    options: dict[str, Any] = {"app": APP, "pool": "threads", "queues": QUEUES, "conf": CONF}
    first = start_worker(space, concurrency=2, **options)
    held = publish(space.url, {"a": 2}, task, [str(gate.path)]).all()
    first.records.started.wait_ids(held)
    later = publish(space.url, {"b": 20}, task, countdown=600).all()
    ids = publish(space.url, dict.fromkeys(QUEUES, 30), task).all()
    if space.kind == "rabbitmq":
        wait_for(lambda: ready(space, *QUEUES) < 80, 30, "messages to be buffered")
    first.sigterm()
    wait_equal(lambda: ready(space, *QUEUES), 80)
    gate.open()
    assert first.wait() == 0

    second = start_worker(space, **options)

    records = second.records
    records.finished.wait_once([*held, *ids])
    assert dead_letters() == {}
    assert records.started.repeated() == []
    assert not records.started.times(later)


def test_what_waits_for_its_eta_is_fresh_after_a_warm_shutdown(
    rabbitmq_space: Space, start_worker: StartWorker
) -> None:
    worker = start_worker(rabbitmq_space, app=APP, queues=QUEUES)
    publish(rabbitmq_space.url, {"a": 5}, "before", countdown=600)
    wait_equal(lambda: ready(rabbitmq_space, "a"), 0)

    assert worker.stop() == 0

    with Connection(rabbitmq_space.url) as connection, connection.channel() as channel:
        back = [channel.basic_get("a").delivery_info["redelivered"] for _ in range(5)]
    assert back == [False] * 5


def test_what_is_given_back_expires_as_before(
    rabbitmq_space: Space, start_worker: StartWorker
) -> None:
    """At the broker, by whoever published it."""
    worker = start_worker(rabbitmq_space, app=APP, queues=QUEUES)
    publish(
        rabbitmq_space.url, {"a": 1}, "before", countdown=600, properties={"expiration": "600000"}
    )
    wait_equal(lambda: ready(rabbitmq_space, "a"), 0)

    assert worker.stop() == 0

    with Connection(rabbitmq_space.url) as connection, connection.channel() as channel:
        assert channel.basic_get("a").properties["expiration"] == "600000"


@pytest.mark.parametrize(("task", "reasons"), [("before", []), ("after", ["worker-lost"])])
def test_process_dies_in_the_middle_of_a_task(
    space: Space,
    start_worker: StartWorker,
    gate: Gate,
    dead_letters: DeadLetters,
    task: str,
    reasons: list[str],
) -> None:
    worker = start_worker(space, app=APP, pool="prefork", queues=QUEUES, conf=CONF)
    held = publish(space.url, {"a": 1}, task, [str(gate.path)]).all()
    (start,) = worker.records.started.wait_ids(held)
    next(child for child in worker.children() if child.pid == start.pid).kill()

    # Celery waits ten seconds for a result, and looks every five
    wait_for(lambda: "WorkerLostError" in worker.log(), 40, worker.log)

    wait_equal(lambda: left(space, *QUEUES), 0)
    wait_equal(lambda: [letter["x-fair-reason"] for letter in dead_letters().values()], reasons)
    gate.open()
    worker.records.finished.wait_once(publish(space.url, {"a": 3}, task).all())
    assert worker.records.started.repeated() == []


def test_repeatable_tasks_on_the_same_worker(
    space: Space, start_worker: StartWorker, gate: Gate, dead_letters: DeadLetters
) -> None:
    conf = SHORT | {"task_acks_late": True}
    first = start_worker(space, app=APP, pool="threads", queues=QUEUES, conf=conf)
    held = gate.hold(first, "a")
    first.kill()
    first.process.end()
    gate.open()

    second = start_worker(space, app=APP, pool="threads", queues=QUEUES, conf=conf)

    second.records.finished.wait_once(held, SOON)
    assert second.records.started.times(held)[held[0]] == 2
    assert dead_letters() == {}


def test_retry_is_refused(space: Space, start_worker: StartWorker) -> None:
    worker = start_worker(space, app=APP, queues=QUEUES, conf=CONF)
    ids = publish(space.url, {"a": 1}, "retries").all()

    wait_for(lambda: "cannot be retried" in worker.log(), 30, worker.log)

    assert worker.records.started.times(ids) == dict.fromkeys(ids, 1)
    wait_equal(lambda: left(space, *QUEUES), 0)


@pytest.mark.parametrize("pool", POOLS)
def test_a_task_that_rejects_its_message(
    space: Space, start_worker: StartWorker, dead_letters: DeadLetters, pool: str
) -> None:
    """On Redis, Celery's worker would delete it."""
    worker = start_worker(space, app=APP, pool=pool, queues=QUEUES, conf=CONF)
    ids = publish(space.url, {"a": 3}, "rejects").all()
    worker.records.finished.wait_once(publish(space.url, {"a": 3}, "after").all())

    wait_equal(lambda: sorted(dead_letters()), sorted(ids))
    assert {letter["x-fair-reason"] for letter in dead_letters().values()} == {"rejected"}
    assert worker.records.started.times(ids) == dict.fromkeys(ids, 1)
    wait_equal(lambda: left(space, *QUEUES), 0)
