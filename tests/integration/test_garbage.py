"""What somebody has pushed to a Redis list harms no worker, whichever way it comes in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers import RedisServer
from tests.integration.malformed import GARBAGE
from tests.integration.survivor import Survivor
from tests.workers import starting_workers


@pytest.fixture(scope="module", params=["shares", "once"], ids=["bell", "looks"])
def survivor(
    request: pytest.FixtureRequest,
    redis_server: RedisServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Survivor]:
    """An idle worker, which is woken by a message, or looks for one after a while."""
    with starting_workers(tmp_path_factory.mktemp("workers")) as start:
        yield Survivor(start, redis_server.space(), app=f"tests.apps.{request.param}")


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_on_redis(survivor: Survivor, kind: str) -> None:
    survivor.check(GARBAGE[kind])
