"""A broker that takes no messages: what must not start stays there, and the rest goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kombu import Connection

from celery_fair.dead_letters.death import dead_letter_queue
from tests.apps.settings import CONSTANTS, GIVEN_BACK_AFTER
from tests.brokers import RabbitMQ, RedisServer, Space
from tests.faults.acts.worker import LOST
from tests.integration.depths import left, ready, unsettled
from tests.integration.gate import Gate
from tests.keys.tenants import KEYED, QUEUE, Tenants
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker

APP = "tests.apps.once"
POOL: dict[str, Any] = {"app": APP, "pool": "threads", "concurrency": 2, "queues": ["a"]}
BLOCKED = "[S || [{state, S}] <- rabbit_networking:connection_info_all([state]), S == blocked]."
NOT_MOVED = "could not be dead-lettered"
NOT_GIVEN_BACK = "could not be given back"


Letters = Callable[[Space], list[str]]


@pytest.fixture
def own_rabbitmq(hurt_rabbitmq: RabbitMQ) -> Iterator[RabbitMQ]:
    """A RabbitMQ that a test may have run out of memory."""
    yield hurt_rabbitmq
    out_of_memory(hurt_rabbitmq, False)


@pytest.fixture
def letters() -> Letters:
    """The ids of all dead letters, sorted."""

    def read(space: Space) -> list[str]:
        with Connection(space.url) as connection, connection.channel() as channel:
            queue = dead_letter_queue("dead-letters")(channel)
            queue.declare()
            return sorted(message.headers["id"] for message in iter(queue.get, None))

    return read


def out_of_memory(server: RabbitMQ, yes: bool) -> None:
    share = "0.0" if yes else "0.9"
    server.control("eval", f"vm_memory_monitor:set_vm_memory_high_watermark({share}).")
    wait_equal(lambda: server.control("eval", "rabbit_alarm:get_alarms().") != "[]", yes)


@pytest.mark.wide
def test_rabbitmq_out_of_memory(
    own_rabbitmq: RabbitMQ, start_worker: StartWorker, letters: Letters
) -> None:
    space = own_rabbitmq.space()
    bad = publish(space.url, {"a": 3}, "nosuchtask").all()
    good = publish(space.url, {"a": 20}, "before").all()
    out_of_memory(own_rabbitmq, True)

    worker = start_worker(space, **POOL)
    worker.records.finished.wait_once(good)
    wait_for(lambda: worker.log().count(NOT_MOVED) > len(bad), 30, worker.log)  # tried again
    wait_equal(lambda: left(space, "a"), len(bad))
    out_of_memory(own_rabbitmq, False)

    wait_equal(lambda: left(space, "a"), 0, timeout=30)
    assert letters(space) == sorted(bad)


def test_a_queue_shared_by_key_is_worked_off_by_a_rabbitmq_out_of_memory(
    own_rabbitmq: RabbitMQ, start_worker: StartWorker
) -> None:
    """It keeps whoever publishes waiting, and so those who would move messages to lanes."""
    space = own_rabbitmq.space()
    ids = Tenants(space.url).publish({"acme": 200, "zeta": 200, "b": 200, "c": 1})
    out_of_memory(own_rabbitmq, True)
    worker = start_worker(space, queues=[QUEUE], conf=KEYED)
    worker.records.started.wait_once(ids)
    assert worker.stop() == 0
    assert left(space, QUEUE) == 0


def test_a_queue_is_cancelled_while_redis_takes_nothing_back(
    own_redis: RedisServer, start_worker: StartWorker, gate: Gate
) -> None:
    """As this user may not have it do so, which is no lost connection: the worker goes on."""
    space = own_redis.space()
    conf = {"fair_queues": {"a": {"max_in_flight": 1}}}
    worker = start_worker(space, conf=conf, **POOL | {"queues": ["a", "other"]})
    held = publish(space.url, {"a": 1}, "before", [str(gate.path)]).all()
    worker.records.started.wait_ids(held)
    publish(space.url, {"a": 3}, "before")
    wait_equal(lambda: ready(space, "a"), 0)
    worker.inspect("ping")

    own_redis.client.execute_command("ACL", "SETUSER", "default", "-eval")
    options = {"queue": "a", "destination": [worker.hostname]}
    worker.client.control.cancel_consumer(**options, reply=False)
    wait_for(lambda: "is consumed no more" in worker.log(), 30, worker.log)
    own_redis.client.execute_command("ACL", "SETUSER", "default", "+eval")

    gate.open()
    worker.records.finished.wait_once([*held, *publish(space.url, {"other": 5}, "plain").all()])
    assert LOST not in worker.log()
    assert worker.stop() == 0


def test_cold_shutdown_in_the_middle_of_a_move(
    own_rabbitmq: RabbitMQ, start_worker: StartWorker
) -> None:
    """The broker keeps the worker waiting for a confirmation when the signal comes."""
    space = own_rabbitmq.space()
    publish(space.url, {"a": 10}, "nosuchtask")
    out_of_memory(own_rabbitmq, True)
    worker = start_worker(space, **POOL)
    wait_for(lambda: "blocked" in own_rabbitmq.control("eval", BLOCKED), 30, worker.log)

    worker.sigquit()

    worker.wait()
    wait_equal(lambda: ready(space, "a"), 10)


def test_permission_denied(
    own_rabbitmq: RabbitMQ, start_worker: StartWorker, letters: Letters
) -> None:
    """A user who may consume, and neither declare dead letters nor publish them."""
    space = own_rabbitmq.space()
    bad = publish(space.url, {"a": 2}, "nosuchtask").all()
    good = publish(space.url, {"a": 10}, "before").all()
    others = "^(?!dead-letters).*$"
    url = own_rabbitmq.add_user("someone", space.place, others, others, others)
    worker = start_worker(url, **POOL)

    worker.records.finished.wait_once(good)
    wait_for(lambda: worker.log().count(NOT_MOVED) >= len(bad), 30, worker.log)
    assert "Cannot declare the dead letters" in worker.log()
    assert "ACCESS_REFUSED" in worker.log()
    assert worker.stop() == 0
    wait_equal(lambda: ready(space, "a"), len(bad))

    allowed = start_worker(space, **POOL)
    wait_equal(lambda: left(space, "a"), 0, timeout=30)
    assert letters(space) == sorted(bad)
    assert allowed.running


def test_letters_that_can_go_nowhere_leave_room_for_what_is_behind_them(
    own_rabbitmq: RabbitMQ, start_worker: StartWorker
) -> None:
    """As above, with more of them than the window takes."""
    space = own_rabbitmq.space()
    publish(space.url, {"a": 12}, "nosuchtask")
    good = publish(space.url, {"a": 5}, "before").all()
    others = "^(?!dead-letters).*$"
    url = own_rabbitmq.add_user("nobody", space.place, others, others, others)
    worker = start_worker(url, conf={"fair_queues": {"a": {"prefetch": 3}}}, **POOL)

    worker.records.finished.wait_once(good)
    assert worker.stop() == 0


FULL = {"x-overflow": "reject-publish", "x-max-length": 25}


@pytest.mark.parametrize("trouble", ["out of memory", "full"])
def test_what_is_given_back_is_not_taken_at_once(
    own_rabbitmq: RabbitMQ, start_worker: StartWorker, gate: Gate, letters: Letters, trouble: str
) -> None:
    """At a warm stop: neither is what has not started a dead letter, nor what ends meanwhile."""
    space = own_rabbitmq.space()
    arguments = FULL if trouble == "full" else {}
    pool = POOL | {"queue_arguments": arguments}
    worker = start_worker(space, **pool)
    held = publish(space.url, {"a": 2}, "after", [str(gate.path)], queue_arguments=arguments).all()
    worker.records.started.wait_ids(held)
    ids = publish(space.url, {"a": 20}, "before", queue_arguments=arguments).all()
    wait_for(lambda: unsettled(space, "a") > len(held), 30)
    if trouble == "full":
        room = FULL["x-max-length"] - ready(space, "a")
        ids += publish(space.url, {"a": room}, "before", queue_arguments=arguments).all()
    else:
        out_of_memory(own_rabbitmq, True)

    worker.sigterm()
    wait_for(lambda: "Waiting for the broker to take back" in worker.log(), 30, worker.log)
    gate.open()
    worker.records.finished.wait_once(held)
    out_of_memory(own_rabbitmq, False)
    start_worker(space, **pool)
    assert worker.wait() == 0

    worker.records.finished.wait_once([*held, *ids])
    wait_equal(lambda: left(space, "a"), 0)
    assert letters(space) == []


def test_what_is_not_taken_back_is_given_back_when_it_is(
    own_rabbitmq: RabbitMQ, start_worker: StartWorker, gate: Gate, letters: Letters
) -> None:
    """Long before the worker stops: on its channel it would count as redelivered in the end."""
    space = own_rabbitmq.space()
    conf = {CONSTANTS: {GIVEN_BACK_AFTER: 1}, "fair_queues": {"a": {"max_in_flight": 1}}}
    worker = start_worker(space, conf=conf, **POOL)
    held = publish(space.url, {"a": 1}, "before", [str(gate.path)]).all()
    worker.records.started.wait_ids(held)
    ids = publish(space.url, {"a": 5}, "before").all()
    later = publish(space.url, {"a": 2}, "before", countdown=600).all()

    out_of_memory(own_rabbitmq, True)
    wait_for(lambda: NOT_GIVEN_BACK in worker.log(), 30, worker.log)
    out_of_memory(own_rabbitmq, False)
    gate.open()

    worker.records.finished.wait_once([*held, *ids])
    assert "Traceback" not in worker.log()
    assert worker.stop() == 0
    assert ready(space, "a") == len(later)
    assert letters(space) == []


def test_a_queue_that_is_full_when_it_is_cancelled(
    own_rabbitmq: RabbitMQ, start_worker: StartWorker, gate: Gate, letters: Letters
) -> None:
    """As above, when it has room again."""
    space = own_rabbitmq.space()
    options = {"max_in_flight": 1, "prefetch": 5}
    conf = {CONSTANTS: {GIVEN_BACK_AFTER: 1}, "fair_queues": {"a": options}}
    pool = POOL | {"queues": ["a", "other"], "queue_arguments": FULL}
    worker = start_worker(space, conf=conf, **pool)
    held = publish(space.url, {"a": 1}, "before", [str(gate.path)], queue_arguments=FULL).all()
    worker.records.started.wait_ids(held)
    most = FULL["x-max-length"]
    publish(space.url, {"a": 5}, "before", queue_arguments=FULL)
    wait_equal(lambda: unsettled(space, "a"), 5)
    publish(space.url, {"a": most}, "before", queue_arguments=FULL)

    worker.cancel_consumer("a")
    wait_for(lambda: NOT_GIVEN_BACK in worker.log(), 30, worker.log)
    with Connection(space.url) as connection:
        for _ in range(10):
            connection.default_channel.basic_get("a", no_ack=True)

    wait_equal(lambda: (ready(space, "a"), unsettled(space, "a")), (most - 10 + 5, 0))
    gate.open()
    assert worker.stop() == 0
    assert letters(space) == []
