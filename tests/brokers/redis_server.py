"""Redis as a child process."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping
from itertools import count
from typing import Any

from tests.brokers.missing import program
from tests.brokers.space import Depth, Space
from tests.ports import free_port
from tests.processes import Process, folder
from tests.waiting import wait_for

PACKAGE = "redis-server"
DATABASES = 512

# Every write is on disk before it is answered, so that a test which kills the
# server knows what the server must still have when it returns.
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


# In one step: a message that moves meanwhile would be nowhere.
_DEPTHS = """
local found = { redis.call('HLEN', 'unacked') }
for _, key in ipairs(redis.call('KEYS', '*')) do
    if redis.call('TYPE', key).ok == 'list' then
        found[#found + 1] = key
        found[#found + 1] = redis.call('LLEN', key)
    end
end
return found
"""


class RedisServer:
    kind = "redis"

    def __init__(
        self,
        durable: bool = False,
        server: str = "redis-server",
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare a server.

        Arguments:
            durable: whether what was answered is kept when it is killed.
            server: its program, or the path of another that takes the same options.
            options: more of them.
        """
        self._program = program(server, package=PACKAGE)
        self._options = dict(options or {})
        self.folder = folder("redis")
        self.port = free_port()
        self._durability = DURABLE if durable else ("--appendonly", "no")
        self._databases = count(1)
        self._process: Process | None = None
        self._clients: dict[str, Any] = {}  # of those databases that are looked at often

    @property
    def pid(self) -> int:
        assert self._process is not None, "Redis was not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    def start(self) -> None:
        args = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        args += ["--save", "", "--databases", str(DATABASES), *self._durability]
        for name, value in self._options.items():
            args += [f"--{name}", *value.split()]
        self._process = Process([self._program, *args], self.folder / "server.log", os.environ)

    def wait_ready(self, timeout: float = 60) -> None:
        """Block until the server answers; it accepts earlier, while loading."""
        wait_for(self._answers, timeout, lambda: f"Redis:\n{self.log()}")

    def _answers(self) -> bool:
        import redis

        try:
            return bool(self.client.ping())
        except redis.ConnectionError:
            return False

    def stop(self) -> None:
        if self._process and self.running:
            self._process.send(signal.SIGTERM)
            self._process.wait()
        self._forget_process()

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._forget_process()

    def _forget_process(self) -> None:
        if self._process:
            self._process.end()
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()
        self.wait_ready()

    def end(self) -> None:
        while self._clients:
            self._clients.popitem()[1].close()
        self._forget_process()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")

    # Administration -------------------------------------------------------

    @property
    def client(self) -> Any:
        """A client of database 0, to be kept open."""
        return self._kept("0")

    def _kept(self, place: str) -> Any:
        return self._clients.get(place) or self._clients.setdefault(place, self.client_of(place))

    def client_of(self, place: str) -> Any:
        import redis

        return redis.Redis(port=self.port, db=int(place))

    def url(self, place: str = "0") -> str:
        return f"redis://127.0.0.1:{self.port}/{place}"

    def space(self) -> Space:
        """A new database for one test."""
        return Space(self, str(next(self._databases)))

    def flush(self, place: str) -> None:
        with self.client_of(place) as client:
            client.flushdb()

    def queue_depths(self, place: str = "0") -> dict[str, Depth]:
        """Depths of the lists; all that is unacknowledged counts for `unacked`.

        kombu keeps the unacknowledged messages of all queues in one hash,
        so they are shown under its name.
        """
        unacked, *lists = self._kept(place).eval(_DEPTHS, 0)
        names, depths = lists[::2], lists[1::2]
        waiting = {name.decode(): Depth(n, 0) for name, n in zip(names, depths, strict=True)}
        return waiting | {"unacked": Depth(0, unacked)}
