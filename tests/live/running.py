"""What ran when: tasks' own records of their starts and ends."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, pairwise
from operator import sub

from tests.apps.recorder import Record
from tests.records import Records


def stood_still(starts: Iterable[Record], longer_than: float) -> float:
    """What is longer than so many seconds of the times from one start to the next, in all."""
    times = sorted(record.monotonic_ns / 1e9 for record in starts)
    return sum(max(0, after - before - longer_than) for before, after in pairwise(times))


class Running:
    """The tasks of these ids, as far as they have ended."""

    def __init__(self, records: Records, ids: Iterable[str]) -> None:
        ended = {record.id for record in records.finished.read()} & set(ids)
        self.starts = self._of(records.started.read(), ended)
        self.ends = self._of(records.finished.read(), ended)

    @staticmethod
    def _of(records: list[Record], wanted: set[str]) -> list[int]:
        return sorted(record.monotonic_ns for record in records if record.id in wanted)

    def most(self) -> int:
        """How many ran at once, at the most."""
        changes = sorted([(at, 1) for at in self.starts] + [(at, -1) for at in self.ends])
        return max(accumulate(change for _, change in changes))

    def mean(self) -> float:
        """How many ran at once, on average."""
        return (sum(self.ends) - sum(self.starts)) / (self.ends[-1] - self.starts[0])

    def longest_gap(self) -> float:
        """Seconds in which none ran, at the most; while all stands still, some do."""
        return max(map(sub, self.starts[1:], self.ends)) / 1e9
