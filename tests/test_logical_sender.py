"""What is published to a logical queue: to which queue it goes, and with which priority."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import Celery, chain, chord, group
from celery.exceptions import ImproperlyConfigured
from kombu import Connection, Queue

from celery_fair import install
from celery_fair.ledger import fingerprint
from tests.brokers import Space
from tests.waiting import wait_for
from tests.workers import StartWorker

LEVELS = {"sms.slow": [0, 4], "sms.fast": [5, 9]}
CONF: dict[str, Any] = {
    "fair_logical_queues": {"sms": {"levels": LEVELS}, "push": {"native": True}},
    "task_ignore_result": True,
    # or a test might look before a message is there
    "broker_transport_options": {"confirm_publish": True},
}

Got = list[tuple[str, int]]
"""For each message: its queue, and its priority as the broker has it."""


@pytest.fixture
def app(space: Space) -> Iterator[Celery]:
    with Celery("publisher", broker=space.url, set_as_current=False) as app:
        app.conf.update(CONF)
        yield install(app)


def take(app: Celery, *queues: str) -> Got:
    """Take all messages out of the queues."""
    got = []
    with app.connection() as connection:
        channel = connection.default_channel
        for name in queues or (*LEVELS, "sms", "push", "celery"):
            app.amqp.queues[name](channel).declare()
            while (message := channel.basic_get(name, no_ack=True)) is not None:
                got.append((name, message.properties.get("priority", 0)))
    return got


def on_the_wire(app: Celery, priority: int) -> int:
    """A level's priority: as it is on RabbitMQ; on Redis all go into one list."""
    return priority if app.connection().transport.driver_type == "amqp" else 0


@pytest.mark.parametrize("priority", [-(10**9), -1, *range(10), 10, 255, True, 4.9])
def test_the_priority_decides_on_the_level(app: Celery, priority: Any) -> None:
    app.send_task("t", queue="sms", priority=priority)
    at = min(max(int(priority), 0), 9)
    assert take(app) == [("sms.fast" if at >= 5 else "sms.slow", on_the_wire(app, at))]


def test_without_a_priority_it_is_the_default_one(app: Celery) -> None:
    app.send_task("t", queue="sms")
    app.conf.task_default_priority = 8
    app.send_task("t", queue="sms")
    app.send_task("t", queue="sms", priority=0)
    assert take(app) == [
        ("sms.slow", 0),
        ("sms.slow", 0),
        ("sms.fast", on_the_wire(app, 8)),
    ]


@pytest.mark.parametrize("priority", ["high", [9], float("nan")])
def test_what_is_no_priority_is_not_published(app: Celery, priority: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        app.send_task("t", queue="sms", priority=priority)
    assert take(app) == []


def nothing(*args: Any) -> None:
    """Only published here, never run."""


def by_name(app: Celery, task: Any) -> None:
    task.apply_async(queue="sms", priority=7)


def by_queue(app: Celery, task: Any) -> None:
    task.apply_async(queue=app.amqp.queues["sms"], priority=7)


def by_route(app: Celery, task: Any) -> None:
    app.conf.task_routes = {task.name: "sms"}
    task.apply_async(priority=7)


def by_route_with_a_priority(app: Celery, task: Any) -> None:
    app.conf.task_routes = {task.name: {"queue": "sms", "priority": 7}}
    task.delay()


def by_route_that_names_its_exchange_too(app: Celery, task: Any) -> None:
    app.conf.task_routes = {task.name: {"queue": "sms", "exchange": "sms", "routing_key": "sms"}}
    task.apply_async(priority=7)


def by_default(app: Celery, task: Any) -> None:
    app.conf.task_default_queue = "sms"
    task.apply_async(priority=7)


def by_task(app: Celery, task: Any) -> None:
    task.queue, task.priority = "sms", 7
    task.delay()


def by_signature(app: Celery, task: Any) -> None:
    task.s().set(queue="sms", priority=7).delay()


def by_chain(app: Celery, task: Any) -> None:
    chain(task.si().set(queue="sms", priority=7), task.si()).delay()


def by_countdown(app: Celery, task: Any) -> None:
    task.apply_async(queue="sms", priority=7, countdown=60)


def by_replacement_of_a_level(app: Celery, task: Any) -> None:
    task.apply_async(queue="sms.fast", priority=7)


WAYS = [
    by_name,
    by_queue,
    by_route,
    by_route_with_a_priority,
    by_route_that_names_its_exchange_too,
    by_default,
    by_task,
    by_signature,
    by_chain,
    by_countdown,
    by_replacement_of_a_level,
]


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_publish(app: Celery, way: Callable[[Celery, Any], None]) -> None:
    way(app, app.task(name="t", shared=False)(nothing))
    assert take(app) == [("sms.fast", on_the_wire(app, 7))]


def test_each_message_of_a_group_and_of_a_chord_by_its_own_priority(app: Celery) -> None:
    app.conf.update(result_backend="cache+memory://", task_ignore_result=False)
    task = app.task(name="t", shared=False)(nothing)
    parts = [task.si().set(queue="sms", priority=priority) for priority in (9, 1)]
    group(parts).apply_async()
    chord(parts)(task.s().set(queue="sms"))
    got = take(app)
    assert [queue for queue, _ in got] == ["sms.slow"] * 2 + ["sms.fast"] * 2


def test_other_queues_are_left_alone(app: Celery) -> None:
    app.send_task("t", queue="celery", priority=3)
    app.send_task("t")
    assert sorted(take(app)) == [("celery", 0), ("celery", 3)]


def test_an_address_elsewhere_is_kept_though_the_default_queue_is_logical(app: Celery) -> None:
    app.conf.task_default_queue = "sms"
    take(app, "celery")  # declares it
    app.send_task("t", exchange="celery", routing_key="celery", priority=7)
    assert [queue for queue, _ in take(app)] == ["celery"]


def test_messages_say_when_they_were_published(app: Celery, space: Space) -> None:
    before = time.time()
    app.send_task("t", queue="sms", priority=7)
    app.conf.fair_logical_queues = None
    del app.amqp
    app.send_task("t", queue="celery")
    with Connection(space.url) as connection:
        for name in ("sms.fast", "celery"):
            message = Queue(name)(connection.default_channel).get(no_ack=True)
            assert before <= message.headers["x-fair-published"] <= time.time()
            assert "x-fair-ledger" not in message.headers


def test_a_message_names_the_ledger_that_may_be_asked_about_it(app: Celery, space: Space) -> None:
    app.conf.fair_ledger = "redis://:secret@host/1"
    app.send_task("t", queue="celery")
    with Connection(space.url) as connection:
        message = Queue("celery")(connection.default_channel).get(no_ack=True)
    assert message.headers["x-fair-ledger"] == fingerprint("redis://host/1")


def test_bad_settings_are_refused_before_anything_is_published(app: Celery) -> None:
    app.conf.fair_logical_queues = {"sms": {"levels": {"slow": [0, 4]}}}
    with pytest.raises(ImproperlyConfigured, match="no level has priority 5"):
        app.send_task("t", queue="sms")


def test_installing_twice_or_late_does_no_harm(space: Space) -> None:
    with Celery("late", broker=space.url, set_as_current=False) as app:
        app.conf.update(CONF)
        assert app.amqp is not None  # somebody has looked already
        assert install(install(app)) is app
        app.send_task("t", queue="sms", priority=9)
        assert [queue for queue, _ in take(app)] == ["sms.fast"]


# The broker's own priorities.


def test_native_priorities_are_served_highest_first(app: Celery) -> None:
    for priority in (0, 9, 3, 6, None, 12):
        app.send_task("t", queue="push", priority=priority)
    wire = [priority for _, priority in take(app, "push")]
    if app.connection().transport.driver_type == "amqp":
        assert wire == [9, 9, 6, 3, 0, 0]
    else:
        assert wire == [0, 0, 3, 6, 9, 9]


def test_a_native_queue_is_declared_for_ten_priorities_by_who_publishes_first(app: Celery) -> None:
    assert not app.finalized
    app.send_task("t", queue="push", priority=9)
    assert app.amqp.queues["push"].queue_arguments == {"x-max-priority": 10}
    assert not app.finalized


def test_a_queue_of_a_worker_is_declared_as_the_worker_does(app: Celery) -> None:
    app.conf.fair_queues = {"alone": {"exclusive": True}}
    app.conf.task_queues = [Queue("alone", queue_arguments={"x-queue-type": "quorum"})]
    app.send_task("t", queue="alone")
    arguments = {"x-queue-type": "quorum", "x-single-active-consumer": True}
    assert app.amqp.queues["alone"].queue_arguments == arguments


# What a worker's tasks see of it.

TELLS = """
from celery_fair import install
from tests.apps.shares import app, started

install(app)
app.conf.task_inherit_parent_priority = True


@app.task(bind=True, name="tells")
def tells(self, tries, child=None):
    info = self.request.delivery_info
    started(info["routing_key"], self.request.id, info["priority"])
    if child:
        app.send_task("tells", [0], queue=child)
    if self.request.retries < tries:
        raise self.retry(countdown=0, max_retries=9, args=[tries])
"""


@pytest.mark.either_broker
def test_a_priority_is_the_same_for_retries_and_children(
    space: Space, start_worker: StartWorker
) -> None:
    worker = start_worker(space, app=TELLS, conf=CONF, args=["-Q", "sms,push"])
    with Celery("publisher", broker=space.url, set_as_current=False) as app:
        app.conf.update(CONF)
        install(app)
        for queue, priority in (("push", 9), ("push", 2), ("sms", 7), ("sms", 3)):
            app.send_task("tells", [2, queue], queue=queue, priority=priority)

    records = worker.records.started.read
    wait_for(lambda: len(records()) >= 16, 30, worker.log)
    seen = {(r.queue, r.seq) for r in records()}
    on_redis = space.kind == "redis"
    assert seen == {
        ("push", 9),
        ("push", 2),
        ("sms.fast", 5 if on_redis else 7),
        ("sms.slow", 0 if on_redis else 3),
    }
    assert len(records()) == 16


def test_what_is_published_anew_has_not_been_delivered(app: Celery) -> None:
    """A retry takes along the headers of its message."""
    app.send_task("t", queue="celery", headers={"redelivered": True, "x-fair-strict": True, "a": 1})
    with app.connection() as connection:
        message = app.amqp.queues["celery"](connection.default_channel).get(no_ack=True)
    assert message is not None
    assert message.headers["a"] == 1
    assert not {"redelivered", "x-fair-strict"} & message.headers.keys()
