"""Whatever a message contains, a fair worker lives, says why it was refused, and goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers import RedisServer, Space
from tests.integration.depths import left
from tests.integration.malformed import DEADLY, GARBAGE, MALFORMED, Garbage, Malformed
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import StartWorker, WorkerProcess, starting_workers

POOLS = ["solo", "prefork"]


class Survivor:
    """A worker that is started anew should a message end it, so that each test tells its own."""

    def __init__(self, start: StartWorker, space: Space, pool: str) -> None:
        self._start, self._pool, self.space = start, pool, space
        self._worker: WorkerProcess | None = None

    @property
    def worker(self) -> WorkerProcess:
        if self._worker is None or not self._worker.running:
            self._worker = self._start(self.space, pool=self._pool, queues=["a"])
        return self._worker

    def check(self, message: Malformed | Garbage) -> None:
        """The message, between two good ones, harms neither and is gone."""
        worker = self.worker
        before = len(worker.log())
        buried = left(self.space, "dead-letters")
        first = publish(self.space.url, {"a": 1})
        message.publish(self.space, "a")
        second = publish(self.space.url, {"a": 1})

        worker.records.started.wait_once([*first.all(), *second.all()], timeout=10)
        wait_equal(lambda: left(self.space, "a"), 0, timeout=10)
        assert worker.running
        assert "Connection to broker lost" not in worker.log()
        if not message.harmless:
            wait_equal(lambda: len(worker.log()) > before, True, timeout=5)
        if not message.harmless and not message.fails:
            wait_equal(lambda: left(self.space, "dead-letters"), buried + 1, timeout=5)


@pytest.fixture(scope="module", params=POOLS)
def survivor(
    request: pytest.FixtureRequest, module_space: Space, start_module_worker: StartWorker
) -> Survivor:
    return Survivor(start_module_worker, module_space.server.space(), request.param)


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_message(survivor: Survivor, kind: str) -> None:
    survivor.check(MALFORMED[kind])


@pytest.fixture(scope="module")
def redis_survivor(
    redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Survivor]:
    with starting_workers(tmp_path_factory.mktemp("workers")) as start:
        yield Survivor(start, redis_server.space(), "solo")


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_on_redis(redis_survivor: Survivor, kind: str) -> None:
    redis_survivor.check(GARBAGE[kind])


@pytest.mark.parametrize("kind", list(DEADLY)[:3])
def test_the_same_message_ends_a_vanilla_worker(
    rabbitmq_space: Space, start_worker: StartWorker, kind: str
) -> None:
    publish(rabbitmq_space.url, {"a": 0})
    DEADLY[kind].publish(rabbitmq_space, "a")
    vanilla = start_worker(rabbitmq_space, wait=False, fair=False, queues=["a"])
    assert vanilla.wait() != 0
    wait_equal(lambda: left(rabbitmq_space, "a"), 1)

    fair = start_worker(rabbitmq_space, queues=["a"])
    fair.records.started.wait_once(publish(rabbitmq_space.url, {"a": 1}).all())
    wait_equal(lambda: left(rabbitmq_space, "a"), 0)
