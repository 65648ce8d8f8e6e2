"""A Redis that comes back with an older state: what was taken from it is there again, and fresh."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import RedisServer
from tests.conftest import running
from tests.integration.depths import left
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import StartWorker


@pytest.fixture
def forgetful() -> Iterator[RedisServer]:
    yield from running(RedisServer())


@pytest.mark.wide
@pytest.mark.parametrize(("ledger", "times"), [(False, 2), (True, 1)])
def test_older_snapshot(
    forgetful: RedisServer, start_worker: StartWorker, tmp_path: Path, ledger: bool, times: int
) -> None:
    conf = {"fair_ledger": f"sqlite:///{tmp_path}/ledger.db"} if ledger else {}
    space = forgetful.space()
    ids = publish(space.url, {"a": 3}, "before").all()
    forgetful.client.save()
    worker = start_worker(space, app="tests.apps.once", queues=["a"], conf=conf)
    worker.records.finished.wait_once(ids)
    wait_equal(lambda: left(space, "a"), 0)

    forgetful.kill()
    forgetful.start()
    forgetful.wait_ready()

    started = worker.records.started
    again = publish(space.url, {"a": 1}, "before").all()
    started.wait_ids(again)
    wait_equal(lambda: left(space, "a"), 0)
    assert started.times(ids) == dict.fromkeys(ids, times)
    assert left(space, "dead-letters") == (3 if ledger else 0)
