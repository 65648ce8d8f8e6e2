"""A store within one process."""

from threading import Lock
from time import monotonic
from typing import ClassVar

from celery_fair.groups import GroupStore, Snapshot


class MemoryStore(GroupStore):
    """For tests, and for workers that are threads of one process."""

    _stores: ClassVar[dict[str, "MemoryStore"]] = {}

    def __init__(self) -> None:
        self._lock = Lock()
        self._documents: dict[str, tuple[int, str | None]] = {}

    @classmethod
    def named(cls, url: str) -> "MemoryStore":
        """Return the process's store of that URL."""
        return cls._stores.setdefault(url, cls())

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
