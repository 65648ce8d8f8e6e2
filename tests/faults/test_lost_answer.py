"""On Redis, nothing is lost between the server and an idle worker, nor starts in doubt.

A worker that waits in a BRPOP, as every worker with kombu does, loses what the server has taken
off its list for it if the answer is lost. This one is woken by what takes nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokers import RedisServer
from tests.faults.accounting import NOTHING
from tests.faults.scene import QUEUES, Scene
from tests.integration.depths import left
from tests.waiting import wait_equal, wait_for


@pytest.mark.parametrize("pool", ["threads", "gevent", "eventlet"])
def test_answer_to_an_idle_worker_is_lost(
    redis_server: RedisServer, tmp_path: Path, pool: str
) -> None:
    scene = Scene(redis_server.space(), tmp_path, pool=pool)
    try:
        scene.ready()
        look = QUEUES[0].encode()  # what restores has scripts, too
        trap = scene.proxy.on("EVALSHA", action="hold", containing=look)
        ids = scene.publish(1, "after")
        trap.wait()
        scene.proxy.hold("down")
        scene.proxy.release("up")
        wait_for(lambda: not scene.space.ready(), 30, "the message to be taken")
        scene.proxy.cut()
        scene.proxy.release()

        scene.settle()

        scene.account(ids).check()
    finally:
        scene.end()


def test_acknowledgement_is_cut_off(redis_server: RedisServer, tmp_path: Path) -> None:
    """What could not be acknowledged does not start, and is a dead letter when it comes again."""
    scene = Scene(redis_server.space(), tmp_path)
    try:
        scene.ready()
        trap = scene.proxy.on("ZREM")
        ids = scene.publish(1, "before")
        trap.wait()

        scene.settle()

        account = scene.account(ids)
        account.check(NOTHING._replace(dead_started=0))
        assert account.dead == set(ids)
    finally:
        scene.end()


@pytest.mark.parametrize(("pool", "concurrency"), [("solo", 1), ("threads", 2)])
def test_an_ordinary_task_starts_if_its_acknowledgement_may_have_arrived(
    redis_server: RedisServer, tmp_path: Path, pool: str, concurrency: int
) -> None:
    """Else it would be lost: the broker has forgotten it."""
    scene = Scene(redis_server.space(), tmp_path, pool=pool, concurrency=concurrency)
    try:
        scene.ready()
        trap = scene.proxy.on("ZREM", action="hold")
        ids = scene.publish(1, "plain")
        trap.wait()
        scene.proxy.hold("down")
        scene.proxy.release("up")
        wait_equal(lambda: left(scene.space, *QUEUES), 0)
        scene.proxy.cut()
        scene.proxy.release()

        scene.settle()

        scene.account(ids).check()
    finally:
        scene.end()
