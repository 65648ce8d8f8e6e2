"""Reading what tasks recorded, while they go on recording."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.apps.recorder import Record
from tests.waiting import wait_for


class RecordFile:
    """Records of one kind, in the order in which they were written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records: list[Record] = []
        self._offset = 0

    def read(self) -> list[Record]:
        """All records so far."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._offset)
                new = file.read()
            # A reader may see a write that crosses a page when it is half done.
            new = new[: new.rfind(b"\n") + 1]
            self._offset += len(new)
            self._records += map(Record.parse, new.decode().splitlines())
        return self._records

    def __len__(self) -> int:
        return len(self.read())

    def wait(self, count: int, timeout: float = 60) -> list[Record]:
        """Block until there are at least `count` records, and return all."""
        wait_for(lambda: len(self) >= count, timeout, lambda: f"{count} records ({self})")
        return self._records

    def wait_ids(self, ids: Iterable[str], timeout: float = 60) -> list[Record]:
        """Block until each of these tasks has a record, and return all records."""
        missing = set(ids)

        def nothing_missing() -> bool:
            missing.difference_update(record.id for record in self.read())
            return not missing

        wait_for(nothing_missing, timeout, lambda: f"{len(missing)} ids ({self})")
        return self._records

    def times(self, ids: Iterable[str]) -> Counter[str]:
        """How often each of these tasks has a record; those without one are left out."""
        wanted = set(ids)
        return Counter(record.id for record in self.read() if record.id in wanted)

    def wait_once(self, ids: Iterable[str], timeout: float = 60) -> list[Record]:
        """Block until each of these tasks has a record; fail if one has two."""
        ids = list(ids)
        self.wait_ids(ids, timeout)
        twice = {task_id: times for task_id, times in self.times(ids).items() if times > 1}
        assert not twice, f"{len(twice)} more than once: {twice}"
        wanted = set(ids)
        return [record for record in self._records if record.id in wanted]

    def counts(self) -> Counter[str]:
        """Records by queue."""
        return Counter(record.queue for record in self.read())

    def repeated(self) -> list[str]:
        """Task ids that occur more than once."""
        seen = Counter(record.id for record in self.read())
        return [task_id for task_id, times in seen.items() if times > 1]

    def __str__(self) -> str:
        return f"{self.path.name}: {len(self)}: {dict(self.counts())}"


class Records:
    """Both kinds; several workers may write into the same files."""

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        self.started = RecordFile(Path(f"{prefix}.started"))
        self.finished = RecordFile(Path(f"{prefix}.finished"))
