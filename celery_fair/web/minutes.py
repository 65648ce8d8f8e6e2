"""What queues did, minute by minute, summed up from the records of an event log."""

import json
import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from celery_fair.core.sketch import OTHER
from celery_fair.eventlog.records import VERSION
from celery_fair.web.snapshot import quantile
from celery_fair.worker.dispatch.observed import BOUNDS

__all__ = ["FIGURES", "MINUTE", "Minutes"]

FIGURES = ("share", "per_second", "median", "p95", "depth")
MINUTE = 60.0

_STARTS, _COST, _DEPTH, _WAITS = 0, 1, 2, 3
_WIDE = _WAITS + len(BOUNDS) + 1
_MARKS = (b'"kind":"started"', b'"kind":"queue"')
_NAME = 255
"""Characters of a queue's name."""

_PROCESSES = 100_000
"""Processes whose numbers are known, so that no record counts twice."""


class Minutes:
    """Sums of the last minutes: 144 bytes a queue and minute.

    A start counts in the minute it was written in, what was charged for it as its queue's share,
    and how long its message had waited: from its publication if that is known, else from when it
    came to the worker. Of a backlog the largest that was written down in the minute counts.

    Arguments:
        count: how many are kept.
        most: queues that they are kept of; all others together are "other".
    """

    def __init__(self, count: int = 360, most: int = 200) -> None:
        self.count = count
        self._most = most
        self._first = 0
        self._sums: dict[str, array[float]] = {}
        self._seen: dict[str, int] = {}
        self.records = 0

    def advance(self, now: float) -> None:
        """Let the last minute be that of `now`, in seconds since 1970; earlier ones are dropped."""
        first = int(now // MINUTE) - self.count + 1
        gone = min(max(0, first - self._first), self.count) * _WIDE
        self._first = max(first, self._first)
        if gone:
            for queue, sums in list(self._sums.items()):
                del sums[:gone]
                sums.extend([0.0] * gone)
                if not any(sums):
                    del self._sums[queue]

    def take_in(self, lines: Iterable[bytes]) -> None:
        """Count records; a line that is none says nothing."""
        for line in lines:
            if any(mark in line for mark in _MARKS):
                try:
                    self._count(json.loads(line))
                except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
                    continue

    def _count(self, record: dict[str, Any]) -> None:
        if record["v"] != VERSION:
            return
        at, seq, boot = record["at"] / 1e6, record["seq"], record["boot"]
        if self._seen.get(boot, -1) >= seq:
            return
        self._seen.pop(boot, None)
        self._seen[boot] = seq
        if len(self._seen) > _PROCESSES:
            del self._seen[next(iter(self._seen))]
        minute = int(at // MINUTE) - self._first
        if not 0 <= minute < self.count:
            return
        sums, offset = self._of(str(record["queue"])[:_NAME]), minute * _WIDE
        if record["kind"] == "queue":
            depth = record.get("depth")
            if depth is not None and math.isfinite(depth):
                sums[offset + _DEPTH] = max(sums[offset + _DEPTH], float(depth))
        elif record["kind"] == "started":
            cost, came = record.get("cost"), record.get("published") or record.get("received")
            sums[offset + _STARTS] += 1
            charged = 1.0 if cost is None else float(cost)
            sums[offset + _COST] += max(0.0, charged) if math.isfinite(charged) else 1.0
            if came is not None:
                wait = max(0.0, at - came / 1e6)
                sums[offset + _WAITS + bisect_left(BOUNDS, wait)] += 1
        self.records += 1

    def _of(self, queue: str) -> "array[float]":
        if queue not in self._sums and len(self._sums) >= self._most:
            queue = OTHER
        if queue not in self._sums:
            self._sums[queue] = array("d", [0.0]) * (self.count * _WIDE)
        return self._sums[queue]

    @property
    def queues(self) -> list[str]:
        """Those that anything is known of, the one that was charged most first."""
        costs = {queue: sum(sums[_COST::_WIDE]) for queue, sums in self._sums.items()}
        return sorted(costs, key=lambda queue: (-costs[queue], queue))

    def times(self) -> list[float]:
        """When each minute begins."""
        return [MINUTE * (self._first + number) for number in range(self.count)]

    def lines(self, queues: Sequence[str], figures: Sequence[str]) -> list[list[float | None]]:
        """Return each queue's figures in turn, at each minute; None where nothing is known."""
        totals = [0.0] * self.count
        for sums in self._sums.values():
            for number, cost in enumerate(sums[_COST::_WIDE]):
                totals[number] += cost
        return [
            [_rounded(value) for value in self._line(queue, figure, totals)]
            for queue in queues
            for figure in figures
        ]

    def sums(self) -> dict[str, dict[str, float | None]]:
        """Return what each queue did in all of these minutes together, as ordered as `queues`."""
        costs = {queue: sum(sums[_COST::_WIDE]) for queue, sums in self._sums.items()}
        total = sum(costs.values())
        return {queue: self._sum(queue, costs[queue], total) for queue in self.queues}

    def _sum(self, queue: str, cost: float, total: float) -> dict[str, float | None]:
        sums = self._sums[queue]
        waits = [int(sum(sums[_WAITS + number :: _WIDE])) for number in range(len(BOUNDS) + 1)]
        return {
            "starts": sum(sums[_STARTS::_WIDE]),
            "share": cost / total if total else None,
            "median": quantile(waits, 0.5),
            "p95": quantile(waits, 0.95),
            "depth": max(sums[_DEPTH::_WIDE]),
        }

    def _line(self, queue: str, figure: str, totals: list[float]) -> Iterator[float | None]:
        sums = self._sums.get(queue)
        for number, total in enumerate(totals):
            row = sums[number * _WIDE : (number + 1) * _WIDE] if sums else None
            yield None if row is None or not total else self._figure(row, figure, total)

    def _figure(self, row: "array[float]", figure: str, total: float) -> float | None:
        if figure == "share":
            return row[_COST] / total
        if figure == "per_second":
            return row[_STARTS] / MINUTE
        if figure == "depth":
            return row[_DEPTH]
        waits = [int(each) for each in row[_WAITS:]]
        return quantile(waits, 0.5 if figure == "median" else 0.95)


def _rounded(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(f"{value:.4g}")
