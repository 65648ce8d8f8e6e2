"""What queues' figures were in the last minutes.

Kept as single-precision numbers, one row of figures a tick: some 12 kB a queue in ten minutes.
"""

import math
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from celery_fair.web.snapshot import Queue, Snapshot, quantile

__all__ = ["FIGURES", "History"]

FIGURES = ("share", "target", "backlog", "oldest", "per_second", "median", "p95")

_NOTHING = (math.nan,) * len(FIGURES)


class History:
    """The figures of each queue, tick by tick.

    Arguments:
        ticks: how many are kept.
        most: queues that it is kept of.
    """

    def __init__(self, ticks: int = 600, most: int = 1000) -> None:
        self.ticks = ticks
        self._most = most
        self._times: deque[float] = deque(maxlen=ticks)
        self._lines: dict[str, array[float]] = {}
        self._seen: dict[str, int] = {}
        self._count = 0

    def add(self, snapshot: Snapshot) -> None:
        """Take in the figures of a moment."""
        self._count += 1
        self._times.append(round(snapshot.time, 1))
        queues = snapshot.queues
        for name in queues:
            if name not in self._lines and len(self._lines) < self._most:
                self._lines[name] = array("f")
        for name, line in list(self._lines.items()):
            queue = queues.get(name)
            line.extend(_NOTHING if queue is None else _figures(queue))
            if queue is not None:
                self._seen[name] = self._count
            elif self._count - self._seen[name] >= self.ticks:
                del self._lines[name], self._seen[name]
            if len(line) >= 2 * self.ticks * len(FIGURES):
                del line[: -self.ticks * len(FIGURES)]

    def times(self, last: int | None = None) -> list[float]:
        """Return when the ticks were, or the `last` ones."""
        return list(self._times)[-last if last else None :]

    def line(self, queue: str, figure: str, last: int | None = None) -> list[float | None]:
        """Return a figure at each of these ticks; None where it is not known."""
        count = min(last or self.ticks, len(self._times))
        values = self._lines.get(queue, array("f"))[FIGURES.index(figure) :: len(FIGURES)]
        known = [_rounded(value) for value in values[-count:]]
        return [None] * (count - len(known)) + known

    def lines(
        self, queues: Iterable[str], figures: Sequence[str], last: int | None = None
    ) -> dict[str, Any]:
        """Return all of that as JSON has it: the times, and each queue's figures in turn."""
        return {
            "times": self.times(last),
            "lines": [self.line(queue, figure, last) for queue in queues for figure in figures],
        }


def _figures(queue: Queue) -> Iterable[float]:
    return (
        queue.share,
        queue.target,
        queue.backlog,
        queue.oldest,
        _or_nan(queue.per_second),
        _or_nan(quantile(queue.waits, 0.5)),
        _or_nan(quantile(queue.waits, 0.95)),
    )


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.4g}")
