"""What a Celery user expects of any worker, on a worker with the step."""

from __future__ import annotations

import time

import pytest
from celery.exceptions import TaskRevokedError, TimeLimitExceeded
from celery.result import AsyncResult
from pytest_celery import CeleryTestSetup

from tests.smoke.setup import FAIR_QUEUES
from tests.smoke.tasks import add, nap, nap_acks_late, now
from tests.waiting import wait_for

pytestmark = pytest.mark.either_broker

SECONDS = 30


@pytest.fixture
def setup(celery_setup: CeleryTestSetup) -> CeleryTestSetup:
    """The setup once its worker consumes and, on Redis somewhat later, hears commands."""
    assert celery_setup.ready()
    wait_for(lambda: celery_setup.app.control.ping(timeout=1), SECONDS, "an answer to ping")
    return celery_setup


def consumed_queues(setup: CeleryTestSetup) -> set[str]:
    replies = setup.app.control.inspect(timeout=SECONDS, limit=1).active_queues()
    (queues,) = replies.values()
    return {queue["name"] for queue in queues}


@pytest.mark.wide
def test_a_task_returns_its_result(setup: CeleryTestSetup) -> None:
    assert add.delay(1, 2).get(timeout=SECONDS) == 3


def test_fair_queues_are_consumed(setup: CeleryTestSetup) -> None:
    asked = [add.apply_async((1, 2), queue=queue) for queue in FAIR_QUEUES]
    assert [each.get(timeout=SECONDS) for each in asked] == [3, 3]


@pytest.mark.wide
def test_countdown(setup: CeleryTestSetup) -> None:
    sent = time.time()
    assert now.apply_async(countdown=1, queue="bulk").get(timeout=SECONDS) - sent > 0.9


@pytest.mark.wide
def test_revoke(setup: CeleryTestSetup) -> None:
    result = now.apply_async(countdown=5, queue="bulk")
    assert setup.app.control.revoke(result.id, reply=True, timeout=SECONDS, limit=1)
    with pytest.raises(TaskRevokedError):
        result.get(timeout=SECONDS)


@pytest.mark.wide
def test_expires(setup: CeleryTestSetup) -> None:
    result = now.apply_async(countdown=2, expires=1, queue="bulk")
    with pytest.raises(TaskRevokedError):
        result.get(timeout=SECONDS)


def test_rate_limit(setup: CeleryTestSetup) -> None:
    assert setup.app.control.rate_limit(now.name, "2/s", reply=True, timeout=SECONDS, limit=1)
    # The first ones may tell the time seconds after the worker has let them go.
    results = [now.apply_async(queue="interactive") for _ in range(10)]
    times = sorted(result.get(timeout=SECONDS) for result in results)
    assert times[-1] - times[0] > 1.2


def test_active_queues(setup: CeleryTestSetup) -> None:
    assert consumed_queues(setup) == {"celery", *FAIR_QUEUES}


@pytest.mark.wide
def test_add_and_cancel_consumer(setup: CeleryTestSetup) -> None:
    control = setup.app.control
    control.add_consumer("late", reply=True, timeout=SECONDS, limit=1)
    assert add.apply_async((1, 2), queue="late").get(timeout=SECONDS) == 3
    # The worker answers first and cancels then.
    control.cancel_consumer("late", reply=True, timeout=SECONDS, limit=1)
    wait_for(lambda: "late" not in consumed_queues(setup), SECONDS, "the queue to be cancelled")


@pytest.mark.wide
def test_time_limit(setup: CeleryTestSetup) -> None:
    result = nap.apply_async((60,), time_limit=1, queue="bulk")
    with pytest.raises(TimeLimitExceeded):
        result.get(timeout=SECONDS)


@pytest.mark.wide
def test_acks_late(setup: CeleryTestSetup) -> None:
    """A killed worker's unacknowledged task runs again."""
    result = nap_acks_late.apply_async((1,), queue="bulk")
    wait_for(lambda: is_active(setup, result), SECONDS, "the task to start")
    setup.worker.kill()
    setup.worker.restart()
    assert result.get(timeout=SECONDS) == 1


def is_active(setup: CeleryTestSetup, result: AsyncResult) -> bool:
    (tasks,) = setup.app.control.inspect(timeout=SECONDS, limit=1).active().values()
    return result.id in {task["id"] for task in tasks}


@pytest.mark.wide
def test_a_worker_restart_keeps_messages(setup: CeleryTestSetup) -> None:
    setup.worker.kill("SIGTERM")
    results = [add.apply_async((1, number), queue="bulk") for number in range(5)]
    setup.worker.restart()
    assert [result.get(timeout=SECONDS) for result in results] == [1, 2, 3, 4, 5]


@pytest.mark.wide
def test_a_broker_restart_is_survived(setup: CeleryTestSetup) -> None:
    assert add.apply_async((1, 2), queue="bulk").get(timeout=SECONDS) == 3
    setup.broker.restart()
    assert add.apply_async((3, 4), queue="bulk").get(timeout=SECONDS) == 7
