"""What was handed to the pool runs, even if the worker is told to stop in the same moment."""

from __future__ import annotations

import pytest

from tests.brokers import Space
from tests.once.conftest import DeadLetters
from tests.publishing import publish
from tests.workers import StartWorker

APP = """\
import os
import signal

from celery.signals import task_received

from tests.apps.once import *


@task_received.connect
def stop(**_):
    os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.either_broker
@pytest.mark.parametrize("pool", ["threads", "prefork"])
@pytest.mark.parametrize("task", ["before", "after", "confirmed"])
def test_told_to_stop_while_a_task_is_handed_over(
    space: Space, start_worker: StartWorker, dead_letters: DeadLetters, pool: str, task: str
) -> None:
    first = start_worker(space, app=APP, pool=pool, concurrency=2, queues=["a"])
    ids = publish(space.url, {"a": 1}, task).all()
    assert first.wait(60) == 0

    second = start_worker(space, app="tests.apps.once", queues=["a"])
    ids += publish(space.url, {"a": 1}, task).all()
    second.records.finished.wait_ids(ids[1:])

    assert dead_letters() == {}
    second.records.finished.wait_once(ids, timeout=5)
