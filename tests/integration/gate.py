"""A gate that the task "hold" waits at: its slot is occupied until a test opens it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.publishing import publish
from tests.workers import WorkerProcess


class Gate:
    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self) -> None:
        self.path.touch()

    def hold(self, worker: WorkerProcess, queue: str, count: int = 1, **options: Any) -> list[str]:
        """Publish so many tasks, wait until all of them run; returns their ids."""
        ids = publish(worker.broker_url, {queue: count}, "hold", [str(self.path)], **options).all()
        worker.records.started.wait_ids(ids)
        return ids
