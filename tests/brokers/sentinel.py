"""Two Redis servers, one of which follows the other, and a sentinel that knows which."""

from __future__ import annotations

import os
import shutil
from itertools import count
from typing import Any

import redis

from tests.brokers.door import Door
from tests.brokers.missing import program
from tests.brokers.redis_server import PACKAGE, RedisServer
from tests.brokers.space import Depth, Space
from tests.ports import free_port
from tests.processes import Process, folder
from tests.waiting import wait_for

NAME = "shop"
DOWN_AFTER = 1000
"""Milliseconds without an answer."""
PAUSE = 30_000
"""Milliseconds, in which the follower has long caught up."""

CONFIG = """\
port {port}
bind 127.0.0.1
dir {folder}
sentinel monitor {name} 127.0.0.1 {master} 1
sentinel down-after-milliseconds {name} {down_after}
sentinel failover-timeout {name} 5000
"""


class Sentinel:
    """What is published, counted and flushed is so at whichever of the two leads."""

    kind = "redis"

    def __init__(self) -> None:
        self._leader = RedisServer(durable=True)
        following = {"replicaof": f"127.0.0.1 {self._leader.port}"}
        self._follower = RedisServer(durable=True, options=following)
        self._program = program("redis-server", package=PACKAGE)
        self.folder = folder("sentinel")
        self._own_port = free_port()
        self._databases = count(1)
        self._process: Process | None = None

    @property
    def port(self) -> int:
        return self._leader.port

    def start(self) -> None:
        self._leader.start()
        self._leader.wait_ready()
        self._follower.start()
        self._follower.wait_ready()
        path = self.folder / "sentinel.conf"
        told = {"folder": self.folder, "name": NAME, "master": self.port, "down_after": DOWN_AFTER}
        path.write_text(CONFIG.format(port=self._own_port, **told))
        self._process = Process(
            [self._program, path, "--sentinel"], self.folder / "server.log", os.environ
        )

    def wait_ready(self, timeout: float = 60) -> None:
        """Block until the sentinel knows both, and one follows the other."""
        wait_for(self._is_whole, timeout, self.log)

    def _is_whole(self) -> bool:
        try:
            known = self._ask("sentinel_master", NAME)
        except redis.ConnectionError:
            return False
        return bool(known["num-slaves"] == 1 and self._is_level())

    def _ask(self, command: str, *args: Any) -> Any:
        with redis.Redis(port=self._own_port, decode_responses=True) as client:
            return getattr(client, command)(*args)

    def _is_level(self) -> bool:
        """Whether the follower has all that the leader has."""
        told = self._leader.client.info("replication")
        follower = told.get("slave0", {})
        return bool(
            follower.get("state") == "online" and follower["offset"] == told["master_repl_offset"]
        )

    def fail_over(self) -> None:
        """Kill the leader when the follower has all of it, and wait until that leads."""
        self._leader.client.execute_command("CLIENT", "PAUSE", PAUSE, "WRITE")
        wait_for(self._is_level, 15, self.log)
        self._leader.kill()
        address = ("127.0.0.1", self._follower.port)
        asked = ("sentinel_get_master_addr_by_name", NAME)
        wait_for(lambda: self._ask(*asked) == address, 30, self.log)
        wait_for(self._follows_nobody, 30, self.log)
        self._leader, self._follower = self._follower, self._leader

    def _follows_nobody(self) -> bool:
        return bool(self._follower.client.info("replication")["role"] == "master")

    def end(self) -> None:
        for server in (self._process, self._leader, self._follower):
            if server is not None:
                server.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        path = self.folder / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""

    # Administration -------------------------------------------------------

    def url(self, place: str = "0") -> str:
        return self._leader.url(place)

    def space(self) -> Space:
        """A new database for one test."""
        return Space(self, str(next(self._databases)))

    def queue_depths(self, place: str = "0") -> dict[str, Depth]:
        return self._leader.queue_depths(place)

    def door(self, place: str) -> Door:
        """By asking the sentinel: a proxy before that sees the question only."""
        options = {"broker_transport_options": {"master_name": NAME}}
        url = f"sentinel://127.0.0.1:{self._own_port}/{place}"
        return Door(url, self._own_port, conf=options)
