"""Whatever a message contains, a fair worker lives, says why it was refused, and goes on."""

from __future__ import annotations

import pytest

from tests.brokers import RabbitMQ, Space
from tests.integration.depths import left
from tests.integration.malformed import MALFORMED, Malformed
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import StartWorker, WorkerProcess


class Survivor:
    """A worker that is started anew should a message end it, so that each test tells its own."""

    def __init__(self, start: StartWorker, space: Space) -> None:
        self._start, self.space = start, space
        self._worker: WorkerProcess | None = None

    @property
    def worker(self) -> WorkerProcess:
        if self._worker is None or not self._worker.running:
            self._worker = self._start(self.space, queues=["a"])
        return self._worker

    def check(self, message: Malformed) -> None:
        """The message, between two good ones, harms neither and is gone."""
        worker = self.worker
        before = len(worker.log())
        first = publish(self.space.url, {"a": 1})
        message.publish(self.space, "a")
        second = publish(self.space.url, {"a": 1})

        worker.records.started.wait_once([*first.all(), *second.all()], timeout=10)
        wait_equal(lambda: left(self.space, "a"), 0, timeout=10)
        assert worker.running
        if not message.harmless:
            wait_equal(lambda: len(worker.log()) > before, True, timeout=5)


@pytest.fixture(scope="module")
def survivor(rabbitmq: RabbitMQ, start_module_worker: StartWorker) -> Survivor:
    return Survivor(start_module_worker, rabbitmq.space())


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_message(survivor: Survivor, kind: str) -> None:
    survivor.check(MALFORMED[kind])
