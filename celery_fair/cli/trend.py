"""What one answer does not show: how a queue's share has developed, and its starts per second."""

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any

from celery_fair.cli.rows import Row

__all__ = ["Trends", "sparkline"]

_BARS = "▁▂▃▄▅▆▇█"
_LENGTH = 12
_KNOWN = 4
"""Pictures after which it is known whether more comes than starts."""


class Trends:
    """Remembers the last answers of every worker's queues. Time is an argument."""

    def __init__(self) -> None:
        self._ratios: dict[tuple[str, str], deque[float | None]] = {}
        self._served: dict[tuple[str, str], tuple[int, float]] = {}
        self._left: dict[str, deque[tuple[int, float]]] = {}

    def rows(self, worker: str, queues: Mapping[str, Any], now: float) -> list[Row]:
        """Take in a worker's answer; return its rows with what they have become since."""
        return [
            Row(
                queue,
                figures,
                sparkline(self._ratio(worker, queue, figures)),
                self._per_second(worker, queue, figures["served"], now),
            )
            for queue, figures in queues.items()
        ]

    def sums(self, queues: Mapping[str, dict[str, Any]], now: float) -> list[Row]:
        """Take in figures over all workers; return their rows, and when what waits is gone."""
        for queue, figures in queues.items():
            figures["empty_in_seconds"] = self._empty_in(queue, figures, now)
        rows = self.rows("", queues, now)
        return [replace(row, per_second=row.figures["per_second"]) for row in rows]

    def _empty_in(self, queue: str, figures: Mapping[str, Any], now: float) -> float | None:
        """By what has become of it since some pictures ago; infinite if it is not less."""
        depth = figures["waiting_at_broker"]
        if depth is None:
            self._left.pop(queue, None)
            return None
        left = depth + figures["buffered"]
        known = self._left.setdefault(queue, deque(maxlen=_LENGTH))
        known.append((left, now))
        before, then = known[0]
        if not left:
            return 0.0
        if len(known) < _KNOWN or now <= then:
            given = figures["empty_in_seconds"]
            return None if given is None else float(given)
        return left * (now - then) / (before - left) if left < before else inf

    def _ratio(self, worker: str, queue: str, figures: Mapping[str, Any]) -> deque[float | None]:
        ratios = self._ratios.setdefault((worker, queue), deque(maxlen=_LENGTH))
        target = figures["target_share"]
        ratios.append(figures["share"] / target if target else None)
        return ratios

    def _per_second(self, worker: str, queue: str, served: int, now: float) -> float | None:
        before = self._served.get((worker, queue))
        self._served[worker, queue] = (served, now)
        if before is None or served < before[0] or now <= before[1]:  # the first, or started anew
            return None
        return (served - before[0]) / (now - before[1])


def sparkline(ratios: deque[float | None]) -> str:
    """Return one bar for each share by its target: half high on target, full at twice that."""
    bars = [
        " " if ratio is None else _BARS[min(int(ratio / 2 * len(_BARS)), len(_BARS) - 1)]
        for ratio in ratios
    ]
    return "".join(bars).rjust(_LENGTH)
