"""On Redis, a message can be lost between the server and an idle worker.

A worker that has nothing to do waits in a BRPOP, as every worker with kombu
does. The server takes a message off its list and answers; if the answer is
lost, nobody has the message.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokers import RedisServer
from tests.faults.accounting import Account, LawBrokenError
from tests.faults.scene import Scene
from tests.waiting import wait_for


@pytest.mark.xfail(raises=LawBrokenError, reason="BRPOP keeps what it takes nowhere")
def test_answer_to_brpop_is_lost(redis_server: RedisServer, tmp_path: Path) -> None:
    scene = Scene(redis_server.space(), tmp_path)
    try:
        scene.ready()
        scene.proxy.on("BRPOP", when="after", action="note").wait()  # it listens anew each 5 s
        scene.proxy.hold("down")
        ids = scene.publish(1, "after")
        wait_for(lambda: not scene.space.ready(), 15, "the message to be taken")
        scene.proxy.cut()
        scene.proxy.release()

        scene.settle()

        Account.of(ids, scene.records, scene.dead_letters()).check()
    finally:
        scene.end()
