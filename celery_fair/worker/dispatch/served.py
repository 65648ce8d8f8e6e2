"""What each queue was served: in all, and in the last seconds."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

__all__ = ["Served"]

_SPAN = 10
"""Seconds over which an achieved share is taken."""


class _Second(NamedTuple):
    number: int
    costs: dict[str, float]
    starts: dict[str, int]


class Served:
    """Counts starts and their costs, by queue. Time is an argument."""

    def __init__(self) -> None:
        self.count: dict[str, int] = {}
        self.cost: dict[str, float] = {}
        self._second = -1
        self._recent: deque[_Second] = deque()
        self._first: int | None = None

    def add(self, queue: str, cost: float, now: float) -> None:
        """A message of the queue was started."""
        self.count[queue] = self.count.get(queue, 0) + 1
        self.charge(queue, cost, now)
        starts = self._recent[-1].starts
        starts[queue] = starts.get(queue, 0) + 1

    def charge(self, queue: str, cost: float, now: float) -> None:
        """A message of the queue, started before, has cost so much."""
        self.cost[queue] = self.cost.get(queue, 0.0) + cost
        second = int(now)
        if second != self._second:
            self._second = second
            if self._first is None:
                self._first = second
            self._recent.append(_Second(second, {}, {}))
            self._forget(second)
        latest = self._recent[-1].costs
        latest[queue] = latest.get(queue, 0.0) + cost

    def recent(self, now: float) -> dict[str, float]:
        """Return the cost served of each queue within the last ten seconds. From any thread."""
        return self._summed([dict(second.costs) for second in self._lately(now)])

    def per_second(self, now: float) -> dict[str, tuple[float, float]]:
        """Return each queue's starts, and their cost, per second of the last ten."""
        lately = self._lately(now)
        costs = self._summed([dict(second.costs) for second in lately])
        starts = self._summed([dict(second.starts) for second in lately])
        known = now - (now if self._first is None else self._first)
        seconds = min(max(known, 1.0), _SPAN - 1 + now % 1)
        return {queue: (starts.get(queue, 0) / seconds, costs[queue] / seconds) for queue in costs}

    def _lately(self, now: float) -> list[_Second]:
        oldest = int(now) - _SPAN
        return [each for each in list(self._recent) if each.number > oldest]  # it may change

    @staticmethod
    def _summed(each: Iterable[Mapping[str, float]]) -> dict[str, float]:
        total: dict[str, float] = {}
        for figures in each:
            for queue, figure in figures.items():
                total[queue] = total.get(queue, 0.0) + figure
        return total

    def _forget(self, second: int) -> None:
        while self._recent and self._recent[0].number <= second - _SPAN:
            self._recent.popleft()
