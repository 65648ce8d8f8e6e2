"""A task that is acknowledged before it starts: when its code runs, the broker has it no more.

What is written after that is no use, so nothing is: whoever could write it stands still.
"""

from __future__ import annotations

import os
import signal
from typing import Any

import psutil
import pytest

from tests.brokers import Space
from tests.integration.depths import left
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker

APP = """\
import os
import signal

from celery_fair import NonRepeatableTask
from tests.apps.once import *


@app.task(base=NonRepeatableTask, bind=True, name="freezes")
def freezes(self, seq):
    os.kill(os.getpid(), signal.SIGSTOP)
    start(self, seq)
"""
PLAIN: dict[str, Any] = {"fair_fast_path": False}
WAYS = pytest.mark.parametrize("conf", [{}, PLAIN], ids=["fast", "plain"])


@WAYS
@pytest.mark.parametrize("task", ["before", "confirmed"])
def test_processes_of_the_pool_stand_still(
    space: Space, start_worker: StartWorker, task: str, conf: dict[str, Any]
) -> None:
    """So none of them can have told that it has accepted the task."""
    worker = start_worker(space, app="tests.apps.once", pool="prefork", queues=["a"], conf=conf)
    (child,) = worker.children()
    child.suspend()

    ids = publish(space.url, {"a": 1}, task).all()

    wait_equal(lambda: left(space, "a"), 0)
    assert not worker.records.started.times(ids)
    child.resume()
    worker.records.finished.wait_once(ids)


@pytest.mark.parametrize(
    ("pool", "conf"),
    [("solo", {}), ("solo", PLAIN), ("threads", {}), ("threads", PLAIN), ("gevent", {}),
     ("eventlet", {})],
    ids=["solo", "solo-plain", "threads", "threads-plain", "gevent", "eventlet"],
)  # fmt: skip
def test_worker_stands_still_in_the_task(
    space: Space, start_worker: StartWorker, pool: str, conf: dict[str, Any]
) -> None:
    worker = start_worker(space, app=APP, pool=pool, queues=["a"], conf=conf)
    process = psutil.Process(worker.pid)
    ids = publish(space.url, {"a": 1}, "freezes").all()
    wait_for(lambda: process.status() == psutil.STATUS_STOPPED, 60, worker.log)

    wait_equal(lambda: left(space, "a"), 0)

    os.kill(worker.pid, signal.SIGCONT)
    worker.records.started.wait_once(ids)
