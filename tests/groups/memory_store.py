"""A store within one process, for workers that are threads of it."""

from __future__ import annotations

from threading import Lock
from time import monotonic

from celery_fair.groups import GroupStore, Snapshot

__all__ = ["MemoryStore"]


class MemoryStore(GroupStore):
    def __init__(self) -> None:
        self._lock = Lock()
        self._documents: dict[str, tuple[int, str | None]] = {}

    def read(self, group: str) -> Snapshot:
        with self._lock:
            version, text = self._documents.get(group, (0, None))
            return Snapshot(version, text, monotonic())

    def write(self, group: str, version: int, text: str) -> bool:
        with self._lock:
            if self._documents.get(group, (0, None))[0] != version:
                return False
            self._documents[group] = version + 1, text
            return True
