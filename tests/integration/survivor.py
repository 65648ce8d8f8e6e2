"""A worker that is given what no task can be made of, between good messages."""

from __future__ import annotations

from tests.brokers import Space
from tests.integration.batch import buried
from tests.integration.depths import left
from tests.integration.malformed import Garbage, Malformed
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import StartWorker, WorkerProcess

PATIENCE = 60
"""Seconds: a broker that does not confirm a dead letter within two is asked again after ten."""


class Survivor:
    """A worker that is started anew should a message end it, so that each test tells its own."""

    def __init__(
        self, start: StartWorker, space: Space, pool: str = "solo", app: str = "tests.apps.once"
    ) -> None:
        self._start, self._pool, self._app, self.space = start, pool, app, space
        self._worker: WorkerProcess | None = None

    @property
    def knows_once(self) -> bool:
        """Whether the app has non-repeatable tasks."""
        return self._app == "tests.apps.once"

    @property
    def worker(self) -> WorkerProcess:
        if self._worker is None or not self._worker.running:
            self._worker = self._start(self.space, app=self._app, pool=self._pool, queues=["a"])
        return self._worker

    def check(self, message: Malformed | Garbage) -> None:
        """The message, between two good ones, harms neither and is gone."""
        worker = self.worker
        before = len(worker.log())
        buried(self.space)
        first = publish(self.space.url, {"a": 1})
        message.publish(self.space, "a")
        second = publish(self.space.url, {"a": 1})

        worker.records.started.wait_once([*first.all(), *second.all()], PATIENCE)
        wait_equal(lambda: left(self.space, "a"), 0, PATIENCE)
        assert worker.running
        assert "Connection to broker lost" not in worker.log()
        if not message.harmless:
            wait_equal(lambda: len(worker.log()) > before, True, PATIENCE)
        if not message.harmless and not message.fails:
            wait_equal(lambda: left(self.space, "dead-letters"), 1, PATIENCE)
            assert list(buried(self.space).values()) == [["malformed"]]
