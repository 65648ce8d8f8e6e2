"""A scene on SQS, which is asked and published to in ways of its own."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from celery import Celery

from celery_fair import install
from celery_fair.brokers.broker import letters_of
from tests.brokers.sqs import Sqs
from tests.faults.scene import OPTIONS, QUEUES, Scene

VISIBLE_AFTER = 5
"""Seconds."""


class Shop(Scene):
    """With a ledger: without one no worker that has non-repeatable tasks starts there."""

    def __init__(self, sqs: Sqs, folder: Path, **options: Any) -> None:
        conf = {
            OPTIONS: sqs.options(visibility_timeout=VISIBLE_AFTER),
            "worker_enable_remote_control": False,  # by a queue for each worker
        }
        self.sqs = sqs
        self._app = Celery("shop", broker=sqs.url, set_as_current=False)
        self._app.conf.update(conf)
        install(self._app)
        super().__init__(sqs, folder, ledger="ledger", conf=conf, **options)

    def _declare(self) -> None:
        attributes = {"VisibilityTimeout": str(VISIBLE_AFTER)}
        for name in QUEUES:
            self.sqs.client.create_queue(QueueName=name, Attributes=attributes)

    def _send(
        self, each: dict[str, int], task: str, args: list[Any], headers: dict[str, Any]
    ) -> list[str]:
        with self._app.producer_pool.acquire() as producer:
            sending = {"headers": headers, "producer": producer, "retry": False}
            return [
                self._app.send_task(task, [n, *args], queue=queue, **sending).id
                for queue, count in each.items()
                for n in range(count)
            ]

    def _empty(self) -> bool:
        return all(self.sqs.depth(name) == (0, 0) for name in QUEUES)

    def dead_letters(self) -> Counter[str]:
        with self._app.connection_for_read() as connection:
            queue = letters_of(self._app, connection)
            with closing(queue.browse()) as letters:
                self._dead = Counter(letter.id for letter in letters)
        assert self._dead.keys() <= self._published, "dead letters that nobody has published"
        return self._dead

    def waiting(self) -> list[str]:
        assert self._empty()
        return []

    def end(self) -> None:
        super().end()
        self._app.close()
