"""A warm stop while a worker has asked the broker something, and its answer is on its way.

Without an event loop the dispatcher runs on whatever greenlet has news, and the stop on another.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

import pytest
from celery import Celery

from tests.brokers import RedisServer, Space
from tests.faults.proxy import Proxy
from tests.faults.scene import OPTIONS, QUEUES, Scene
from tests.integration.depths import left
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import StartWorker

STOPS_WITHIN = 5
"""Seconds: a worker that does not wait for the answer has ended by then."""


@pytest.mark.parametrize("pool", ["gevent", "eventlet"])
def test_what_is_just_acknowledged_still_starts(
    redis_server: RedisServer, tmp_path: Path, pool: str
) -> None:
    patient = {OPTIONS: {"socket_timeout": 60}}  # the answer is late, and no silence
    scene = Scene(redis_server.space(), tmp_path, pool=pool, conf=patient)
    try:
        scene.ready()
        trap = scene.proxy.on("ZREM", action="mute")
        ids = scene.publish(1, "before")
        trap.wait()
        wait_equal(lambda: left(scene.space, *QUEUES), 0)

        worker = scene.worker
        worker.sigterm()
        with suppress(TimeoutExpired):
            worker.wait(STOPS_WITHIN)
        scene.proxy.release()
        assert worker.wait() == 0

        scene.settle()

        scene.account(ids).check()
    finally:
        scene.end()


PULLED = {"fair_queues": {"a": {"fetch": "pull"}}}


@pytest.mark.parametrize(
    ("method", "when", "task", "conf"),
    [("ack", "after", "confirmed", {}), ("get", "before", "before", PULLED)],
    ids=["confirmed", "pulled"],
)
def test_a_command_to_end_that_comes_before_the_answer(
    rabbitmq_space: Space,
    start_worker: StartWorker,
    method: str,
    when: Any,
    task: str,
    conf: dict[str, Any],
) -> None:
    """On the same connection: it is read while the answer is waited for."""
    space = rabbitmq_space
    with Proxy(space) as proxy:
        worker = start_worker(
            proxy.url, app="tests.apps.once", pool="threads", queues=["a"], conf=conf
        )
        assert worker.control("ping")
        trap = proxy.on(method, action="hold", when=when)
        if task == "before":
            trap.wait()
        ids = publish(space.url, {"a": 1}, task).all()
        trap.wait()
        with Celery(broker=space.url, set_as_current=False) as app:
            app.control.shutdown(destination=[worker.hostname])
        proxy.release()
        assert worker.wait() == 0
        assert worker.records.finished.times(ids) == dict.fromkeys(ids, 1)
        assert left(space, "a", "dead-letters") == 0
