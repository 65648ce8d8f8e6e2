"""A Redis whose answers do not come, while its connections last: what `socket_timeout` is for."""

from __future__ import annotations

from pathlib import Path

from tests.brokers import RedisServer
from tests.faults.scene import OPTIONS, Scene
from tests.waiting import wait_for


def test_who_has_a_timeout_does_not_wait_for_ever(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    """As when a firewall forgets the connection: nothing is closed, and nothing comes."""
    scene = Scene(redis_server.space(), tmp_path, conf={OPTIONS: {"socket_timeout": 2}})
    try:
        scene.ready()
        scene.proxy.hold()
        ids = scene.publish(4, "before")
        wait_for(lambda: "Connection to broker lost" in scene.worker.log(), 30, scene.worker.log)
        scene.proxy.release()

        scene.settle()

        scene.account(ids).check()
    finally:
        scene.end()
