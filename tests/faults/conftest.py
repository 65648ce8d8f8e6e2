"""Scenes for the cases of a module, on the run's brokers where they can bear it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.faults.scenes import Scenes, Servers


@pytest.fixture(scope="module")
def scenes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scenes]:
    """A worker of each kind for all cases, and brokers that may be killed."""
    with ExitStack() as stack:
        servers = Servers(
            lambda mortal: request.getfixturevalue("hurt_rabbitmq" if mortal else "rabbitmq")
        )
        stack.callback(servers.end)
        scenes = Scenes(servers, tmp_path_factory.mktemp("faults"))
        stack.callback(scenes.end)
        yield scenes
