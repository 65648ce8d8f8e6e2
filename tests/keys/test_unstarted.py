"""Which queues may have messages waiting at a worker, where some tasks are non-repeatable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from celery import Celery
from kombu import Exchange, Queue

from celery_fair import NonRepeatableTask
from celery_fair.worker.queues.keyed.by_key import Unstarted

# Celery's, of a task that names its queue.
pytestmark = pytest.mark.filterwarnings("ignore::celery.exceptions.CDeprecationWarning")


def nothing() -> None: ...


def app_of(routes: Any = None, **options: Any) -> Celery:
    app = Celery("shop")
    app.conf.task_routes = routes
    app.conf.task_default_queue = "default"
    app.task(name="ordinary", shared=False)(nothing)
    app.task(base=NonRepeatableTask, name="charge", shared=False, **options)(nothing)
    return app


def by_arguments(name: str, args: Any, *_: Any, **__: Any) -> Mapping[str, str]:
    return {"queue": args[0]}


def by_name(name: str, *_: Any, **__: Any) -> str | None:
    return "payments" if name == "charge" else None


@pytest.mark.parametrize(
    ("routes", "options", "queue"),
    [
        (None, {}, "default"),
        (None, {"queue": "payments"}, "payments"),
        (None, {"queue": Queue("payments")}, "payments"),
        ({"charge": {"queue": "payments"}}, {}, "payments"),
        ({"charge": "payments"}, {}, "payments"),
        (by_name, {}, "payments"),
        ({"charge": {"queue": "others"}}, {"queue": "payments"}, "payments"),
    ],
)
def test_none_of_the_queue_that_a_non_repeatable_task_is_sent_to(
    routes: Any, options: dict[str, Any], queue: str
) -> None:
    app = app_of(routes, **options)
    unstarted = Unstarted(app)
    assert not unstarted.may_wait(queue)
    assert unstarted.may_wait("ordinary")
    assert queue not in app.amqp.queues or queue == "default"  # or it would be consumed


@pytest.mark.parametrize(
    ("routes", "options"),
    [
        (by_arguments, {}),
        ({"charge": {"exchange": "shop", "routing_key": "a.b"}}, {}),
        (None, {"routing_key": "a.b"}),
        (None, {"exchange": Exchange("shop")}),
    ],
)
def test_none_of_any_queue_if_it_depends_where_one_is_sent(
    routes: Any, options: dict[str, Any]
) -> None:
    assert not Unstarted(app_of(routes, **options)).may_wait("ordinary")


def test_none_of_a_queue_that_one_has_come_from() -> None:
    unstarted = Unstarted(app_of())
    unstarted.came_once("jobs")
    assert not unstarted.may_wait("jobs")
    assert unstarted.may_wait("ordinary")


def test_where_all_tasks_may_be_repeated_any_message_may_wait() -> None:
    assert Unstarted(Celery("shop")).may_wait("celery")
