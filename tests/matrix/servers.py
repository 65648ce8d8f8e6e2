"""The brokers of the matrix, with times that run out in seconds; or why one is not here."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
import redis

from tests.apps.settings import CONSTANTS, GIVEN_BACK_AFTER
from tests.brokers import RabbitMQ, RedisServer
from tests.brokers.rabbitmq import NAMED, SERVER_SCRIPTS
from tests.brokers.sentinel import Sentinel
from tests.brokers.sqs import Sqs
from tests.brokers.tls import TlsRabbitMQ, TlsRedis
from tests.conftest import running
from tests.faults.scene import OPTIONS, Scene
from tests.matrix.shop import Shop

SYSTEM = SERVER_SCRIPTS[0]
NAMED_VALKEY = "VALKEY_SERVER"
IMPATIENT = {"consumer_timeout": 6_000, "channel_tick_interval": 500}
"""Milliseconds."""
GIVE_BACK: dict[str, Any] = {
    CONSTANTS: {GIVEN_BACK_AFTER: 2},
    OPTIONS: {"visibility_timeout": 5},
}
"""Seconds; the first well below RabbitMQ's, as it must be. What a worker holds for longer than the
second, on a machine that does much else, is given to another."""


class MissingError(Exception):
    """A broker is not here; says why."""


def _named(variable: str, what: str) -> str:
    path = os.environ.get(variable, "")
    if not path:
        raise MissingError(f"no {what} here: name one with {variable}=/path")
    if not os.access(path, os.X_OK):
        raise MissingError(f"{variable}={path} cannot be run")
    return path


_MAKE: dict[str, Callable[[], Any]] = {
    "RabbitMQ 3": lambda: RabbitMQ(SYSTEM, **IMPATIENT),
    "RabbitMQ 4": lambda: RabbitMQ(_named(NAMED, "RabbitMQ 4"), **IMPATIENT),
    "RabbitMQ, TLS": lambda: TlsRabbitMQ(SYSTEM, **IMPATIENT),
    "Redis": lambda: RedisServer(durable=True),
    "Redis, TLS": lambda: TlsRedis(durable=True),
    "Redis Sentinel": Sentinel,
    "Valkey": lambda: RedisServer(True, _named(NAMED_VALKEY, "Valkey")),
    "SQS": Sqs,
}
_OWN = {"Redis Sentinel", "SQS"}
"""Of which each cell has its own: what is done to one hurts all of it."""


class Servers:
    """Started when they are first needed, and ended with the stack; for several threads."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack, self._lock = stack, Lock()
        self._running: dict[str, Any] = {}
        self.versions: dict[str, str] = {}

    def scene(self, broker: str, folder: Path, stack: ExitStack, **options: Any) -> Scene:
        """Return a scene on a place of its own.

        Raises:
            MissingError: if the broker is not here.
        """
        with self._lock:
            server = self._server(broker, stack)
        if broker == "SQS":
            del options["queue_type"]
            scene: Scene = Shop(server, folder, **options)
        else:
            space = server.space()
            door = server.door(space.place) if hasattr(server, "door") else None
            scene = Scene(space, folder, door=door, conf=GIVE_BACK, **options)
        stack.callback(scene.end)
        return scene

    def _server(self, broker: str, stack: ExitStack) -> Any:
        if broker in self._running:
            return self._running[broker]
        try:
            started = running(_MAKE[broker]())
            whose = stack if broker in _OWN else self._stack
            whose.callback(started.close)
            server = next(started)
        except pytest.skip.Exception as missing:
            raise MissingError(str(missing)) from None
        found = self.versions[broker] = _version(server)
        name, _, number = broker.partition(" ")
        if number.isdigit() and found.split(".")[0] != number:
            raise MissingError(f"the {name} here is {found}")
        if broker not in _OWN:
            self._running[broker] = server
        return server


def _version(server: Any) -> str:
    if isinstance(server, RabbitMQ):
        return server.control("eval", "rabbit_misc:version().").strip('"')
    if isinstance(server, Sqs):
        return f"moto {version('moto')}"
    with redis.Redis(port=server.port) as client:
        info = client.info("server")
    return str(info.get("valkey_version", info["redis_version"]))
