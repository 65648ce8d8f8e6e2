"""Scenes for the cases of a module, on the run's brokers where they can bear it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from tests.brokers import RabbitMQ, RedisServer
from tests.brokers.space import Server
from tests.conftest import running
from tests.faults.matrix import Case
from tests.faults.scenes import Scenes


@pytest.fixture(scope="module")
def scenes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scenes]:
    """A worker of each kind for all cases, and brokers that may be killed."""
    with ExitStack() as stack:

        @cache
        def mortal(kind: str) -> Server:
            new = RabbitMQ() if kind == "rabbitmq" else RedisServer(durable=True)
            started = running(new)
            stack.callback(started.close)
            return next(started)

        def server(case: Case) -> Server:
            immortal = case.broker == "rabbitmq" and not case.mortal
            if immortal:
                return request.getfixturevalue("rabbitmq")
            return mortal(case.broker)

        scenes = Scenes(server, tmp_path_factory.mktemp("faults"))
        stack.callback(scenes.end)
        yield scenes
