"""Scenes by what they must be like, and their brokers, made when they are first needed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.brokers import RabbitMQ, RedisServer
from tests.brokers.space import Server, Space
from tests.conftest import running
from tests.faults.accounting import Account
from tests.faults.matrix import Case, execute
from tests.faults.scene import Scene

Key = tuple[str, str, bool, str]


def _key(case: Case) -> Key:
    return case.label, case.pool, case.mortal, case.stage.name


class Servers:
    """Brokers that may be killed, and those with settings of their own.

    Arguments:
        rabbitmq: returns the RabbitMQ of cases that kill it, or of those that do it no harm; by
            default they have their own.
    """

    def __init__(self, rabbitmq: Callable[[bool], Server] | None = None) -> None:
        self._rabbitmq = rabbitmq
        self._started: dict[object, Server] = {}
        self._stack = ExitStack()

    def of(self, case: Case) -> Server:
        """The broker for a case."""
        settings = case.stage.rabbit
        if self._rabbitmq is not None and case.broker == "rabbitmq" and not settings:
            return self._rabbitmq(case.mortal)
        key = (case.broker, case.mortal, *settings.items())
        if key not in self._started:
            new = RedisServer(durable=True) if case.broker == "redis" else RabbitMQ(**settings)
            started = running(new)
            self._stack.callback(started.close)
            self._started[key] = next(started)
        return self._started[key]

    def end(self) -> None:
        self._stack.close()


class Scenes:
    """Runs cases, each on a scene that fits it.

    Arguments:
        servers: the brokers.
    """

    def __init__(self, servers: Servers, folder: Path) -> None:
        self._servers, self._folder = servers, folder
        self._scenes: dict[Key, Scene] = {}
        self._made = 0

    def execute(self, case: Case, seed: int) -> dict[str, Account]:
        """One run; a scene on which something went wrong is not used again."""
        try:
            return execute(case, self.of(case), seed)
        except BaseException:
            if scene := self._scenes.pop(_key(case), None):
                scene.end()
            raise

    def of(self, case: Case) -> Scene:
        """The scene for a case."""
        key = _key(case)
        if key not in self._scenes:
            self._scenes[key] = self._make(case)
        return self._scenes[key]

    def _make(self, case: Case) -> Scene:
        self._made += 1
        folder = self._folder / str(self._made)
        folder.mkdir()
        space: Space = self._servers.of(case).space()
        return Scene(
            space,
            folder,
            queue_type=case.queue_type,
            pool=case.pool,
            ledger=case.ledger,
            arguments=case.stage.arguments,
            conf=case.stage.conf,
        )

    def end(self) -> None:
        with ExitStack() as stack:
            for scene in self._scenes.values():
                stack.callback(scene.end)
        self._scenes.clear()
