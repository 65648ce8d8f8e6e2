"""What somebody has pushed to a Redis list harms no worker, whichever way it comes in."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.brokers import RedisServer
from tests.integration.batch import buried
from tests.integration.depths import left
from tests.integration.malformed import GARBAGE, stored
from tests.integration.survivor import PATIENCE, Survivor
from tests.waiting import wait_equal
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


def test_message_that_only_python_can_read(survivor: Survivor) -> None:
    """Redis's own JSON refuses half a surrogate pair, Python's reads it: it is held, and starts."""
    started = survivor.worker.records.started
    for task in ("before", "after", "noop") if survivor.knows_once else ("noop",):
        headers = {"lang": "py", "task": task, "id": str(uuid4()), "odd": "\ud800"}
        stored(headers=headers).publish(survivor.space, "a")
        started.wait_once([headers["id"]], PATIENCE)
    wait_equal(lambda: left(survivor.space, "a"), 0)
    assert not buried(survivor.space)
