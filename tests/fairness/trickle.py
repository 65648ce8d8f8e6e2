"""A publisher of some messages a second, beside everything else."""

from __future__ import annotations

from threading import Event, Thread
from types import TracebackType
from typing import Self

from celery import Celery


class Trickle:
    """Publishes to one queue at a steady pace, from a thread, while its context lasts."""

    def __init__(self, url: str, queue: str, per_second: float) -> None:
        self._client = Celery("trickle", broker=url, set_as_current=False)
        self._queue = queue
        self._pause = 1 / per_second
        self._over = Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while not self._over.wait(self._pause):
            self._client.send_task("noop", [0], queue=self._queue)
