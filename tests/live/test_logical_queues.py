"""Logical queues: one name and a priority to publish with, a physical queue for each level."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest
from celery import Celery, chain, group
from celery.beat import ScheduleEntry, Scheduler
from celery.schedules import schedule

from celery_fair import install
from tests.brokers import Space
from tests.integration.depths import ready
from tests.waiting import wait_equal
from tests.workers import StartWorker, WorkerProcess

LEVELS = {
    "sms": {"sms.slow": [0, 4], "sms.fast": [5, 9]},
    "mail": {"mail.low": [0, 2], "mail.mid": [3, 6], "mail.high": [7, 9]},
}
CONF: dict[str, Any] = {
    "fair_policy": "strict",
    "fair_queues": {
        "sms.slow": {"class": 0},
        "sms.fast": {"class": 1},
        "mail.mid": {"class": 1},
        "mail.high": {"class": 2},
        "push": {"prefetch": 1},
    },
    "fair_logical_queues": {name: {"levels": levels} for name, levels in LEVELS.items()}
    | {"push": {"native": True}},
}
PRIORITIES = range(-1, 12)
"""Those out of range count as the nearest."""


def level(name: str, priority: int) -> str:
    at = min(max(priority, 0), 9)
    (found,) = (queue for queue, (low, high) in LEVELS[name].items() if low <= at <= high)
    return found


@pytest.fixture(scope="module")
def worker(module_space: Space, start_module_worker: StartWorker) -> WorkerProcess:
    args = ["-Q", "celery,sms,mail,push"]
    return start_module_worker(module_space, app="tests.apps.levels", conf=CONF, args=args)


@pytest.fixture(scope="module")
def app(worker: WorkerProcess) -> Iterable[Celery]:
    """The publishing side."""
    with Celery("publisher", broker=worker.broker_url, set_as_current=False) as app:
        app.conf.update(CONF, task_routes={"routed": {"queue": "sms"}}, task_ignore_result=True)
        yield install(app)


def starts(worker: WorkerProcess, ids: Iterable[str]) -> dict[str, str]:
    """The queue that each task came from."""
    return {record.id: record.queue for record in worker.records.started.wait_once(ids)}


def test_worker_consumes_the_levels(worker: WorkerProcess, module_space: Space) -> None:
    levels = {queue for level in LEVELS.values() for queue in level}
    assert {queue["name"] for queue in worker.inspect("active_queues")} == {
        "celery",
        "push",
        *levels,
    }
    assert not module_space.depths().keys() & {"sms", "mail"}


@pytest.mark.parametrize("name", LEVELS)
def test_priority_decides_on_the_level(worker: WorkerProcess, app: Celery, name: str) -> None:
    expected = {
        app.send_task("noop", [0], queue=name, priority=priority).id: level(name, priority)
        for priority in PRIORITIES
    }
    expected[app.send_task("noop", [0], queue=name).id] = level(name, 0)
    assert starts(worker, expected) == expected


def by_option(app: Celery) -> list[str]:
    return [app.send_task("noop", [0], queue="sms", priority=7).id]


def by_route(app: Celery) -> list[str]:
    return [app.send_task("routed", [0], priority=7).id]


def by_attribute(app: Celery) -> list[str]:
    return [app.task(name="placed", queue="sms", priority=7, shared=False)(body).delay(0).id]


def by_canvas(app: Celery) -> list[str]:
    ids = ["canvas-1", "canvas-2", "canvas-3"]
    first, second, third = (
        app.signature("noop", [0], immutable=True, queue="sms", priority=7, task_id=task)
        for task in ids
    )
    chain(first, group(second, third)).apply_async()
    return ids


def by_beat(app: Celery) -> list[str]:
    options = {"queue": "sms", "priority": 7, "task_id": "beat-1"}
    every_minute = schedule(timedelta(minutes=1), app=app)
    entry = ScheduleEntry("entry", "noop", None, 0, every_minute, (0,), {}, options, app=app)
    scheduler = Scheduler(app, schedule={}, lazy=True)
    scheduler.apply_async(entry, producer=app.amqp.producer_pool.acquire(block=True))
    return ["beat-1"]


def by_retry(app: Celery) -> list[str]:
    return [app.send_task("again", [0], queue="sms", priority=7).id]


WAYS = [by_option, by_route, by_attribute, by_canvas, by_beat, by_retry]


@pytest.mark.filterwarnings("ignore::celery.exceptions.CDeprecationWarning")
@pytest.mark.parametrize("way", WAYS)
def test_way_to_publish(
    worker: WorkerProcess, app: Celery, way: Callable[[Celery], list[str]]
) -> None:
    ids = way(app)
    assert starts(worker, ids) == dict.fromkeys(ids, "sms.fast")


def body(seq: int) -> None:
    """Only its name is used here."""


def test_task_that_publishes(worker: WorkerProcess, app: Celery) -> None:
    before = worker.records.started.counts()["mail.mid"]
    app.send_task("sends", [0, "mail", 5])
    wait_equal(lambda: worker.records.started.counts()["mail.mid"], before + 1)


def test_cancel_and_add_consumer(worker: WorkerProcess, app: Celery, module_space: Space) -> None:
    worker.cancel_consumer("sms", *LEVELS["sms"])
    ids = [app.send_task("noop", [0], queue="sms", priority=at).id for at in (0, 9)]
    other = app.send_task("noop", [0], queue="mail").id
    starts(worker, [other])
    wait_equal(lambda: [ready(module_space, queue) for queue in LEVELS["sms"]], [1, 1])

    assert "ok" in worker.control("add_consumer", queue="sms")
    assert starts(worker, ids) == dict(zip(ids, LEVELS["sms"], strict=True))


def test_native_priorities(worker: WorkerProcess, app: Celery, module_space: Space) -> None:
    """In the broker's order, whatever the order in which they were published."""
    worker.cancel_consumer("push")
    published = (3, 9, 0, 5, 1, 8, 2, 7, 4, 6)
    priorities = {app.send_task("noop", [0], queue="push", priority=p).id: p for p in published}
    wait_equal(  # on Redis, a list for each step
        lambda: sum(n for name, n in module_space.ready().items() if name.startswith("push")),
        len(published),
    )
    assert "ok" in worker.control("add_consumer", queue="push")

    starts = sorted(worker.records.started.wait_once(priorities))
    served = [priorities[record.id] for record in starts]

    if module_space.kind == "rabbitmq":
        assert served == sorted(published, reverse=True)
    else:  # kombu's steps: within one, as they were published
        steps = sorted(published, key=lambda priority: bisect([0, 3, 6, 9], 9 - priority))
        assert served == steps
