"""What each queue was served: in all, and in the last seconds."""

from collections import deque

__all__ = ["Served"]

_SPAN = 10
"""Seconds over which an achieved share is taken."""


class Served:
    """Counts starts and their costs, by queue. Time is an argument."""

    def __init__(self) -> None:
        self.count: dict[str, int] = {}
        self.cost: dict[str, float] = {}
        self._second = -1
        self._recent: deque[tuple[int, dict[str, float]]] = deque()

    def add(self, queue: str, cost: float, now: float) -> None:
        """A message of the queue was started."""
        self.count[queue] = self.count.get(queue, 0) + 1
        self.charge(queue, cost, now)

    def charge(self, queue: str, cost: float, now: float) -> None:
        """A message of the queue, started before, has cost so much."""
        self.cost[queue] = self.cost.get(queue, 0.0) + cost
        second = int(now)
        if second != self._second:
            self._second = second
            self._recent.append((second, {}))
            self._forget(second)
        latest = self._recent[-1][1]
        latest[queue] = latest.get(queue, 0.0) + cost

    def recent(self, now: float) -> dict[str, float]:
        """Return the cost served of each queue within the last ten seconds. From any thread."""
        total: dict[str, float] = {}
        oldest = int(now) - _SPAN
        for second, costs in list(self._recent):  # a copy, for it may change meanwhile
            if second > oldest:
                for queue, cost in dict(costs).items():
                    total[queue] = total.get(queue, 0.0) + cost
        return total

    def _forget(self, second: int) -> None:
        while self._recent and self._recent[0][0] <= second - _SPAN:
            self._recent.popleft()
