"""A gate that the task "hold" waits at: its slot is occupied until a test opens it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.publishing import publish
from tests.workers import WorkerProcess

STARTS_WITHIN = 60
"""Seconds; a worker that is ready takes a moment, on a machine with nothing else to do."""


class Gate:
    """A listening socket; who has connected waits until it is closed, which opens the gate."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="gate-")  # a socket's path may have 107 bytes
        self.path = Path(self._folder.name) / "gate"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(128)

    def open(self) -> None:
        self._listener.close()
        self._folder.cleanup()

    def hold(self, worker: WorkerProcess, queue: str, count: int = 1, **options: Any) -> list[str]:
        """Publish so many tasks, wait until all of them run; returns their ids."""
        ids = publish(worker.broker_url, {queue: count}, "hold", [str(self.path)], **options).all()
        worker.records.started.wait_ids(ids, STARTS_WITHIN)
        return ids


@contextmanager
def closing_gate() -> Iterator[Gate]:
    """A gate that is open after the block."""
    gate = Gate()
    try:
        yield gate
    finally:
        gate.open()
