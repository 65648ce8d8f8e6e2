"""A warm stop while the broker has a message's acknowledgement, and its answer is on its way.

Without an event loop the dispatcher runs on whatever greenlet has news, and the stop on another.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired

import pytest

from tests.brokers import RedisServer
from tests.faults.scene import OPTIONS, QUEUES, Scene
from tests.integration.depths import left
from tests.waiting import wait_equal

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
