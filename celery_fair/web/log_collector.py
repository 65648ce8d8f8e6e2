"""The thread that reads the event log, for the page of the last hours: bounded, without Spark."""

import json
import logging
import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from operator import add
from pathlib import Path
from threading import Event, Thread
from time import monotonic, time
from typing import Any, NamedTuple

from celery_fair.core.sketch import OTHER
from celery_fair.eventlog.records import VERSION
from celery_fair.pipeline.errors import PipelineError
from celery_fair.web.history import History, Tick
from celery_fair.web.log_reader import LogReader
from celery_fair.web.snapshot import quantile
from celery_fair.worker.dispatch.observed import BOUNDS

__all__ = ["FIGURES", "Hours", "LogCollector"]

logger = logging.getLogger(__name__)

FIGURES = ("share", "per_second", "median", "p95", "depth")
"""Of each minute."""

_SUMS = ("share", "starts", "median", "p95", "depth")
"""Of all of them."""

_EVERY = 10.0
"""Seconds between two looks at the log."""

_MINUTE = 60.0

_DEPTH, _STARTS, _COST, _WAITS = 0, 1, 2, 3
_NOTHING = array("d", [0.0]) * (_WAITS + len(BOUNDS) + 1)
_MARKS = (b'"kind":"started"', b'"kind":"queue"')
_NAME = 255
"""Characters of a queue's name."""

_PROCESSES = 100_000
"""Processes whose numbers are known, so that no record counts twice."""


class Hours(NamedTuple):
    """What the log says of the last hours.

    Attributes:
        number: how often it was looked at; 0 while it is read for the first time.
        queues: their sums, by name, the one that was charged most first.
        left_out: bytes of the log that were too many.
        trouble: why it cannot be read.
    """

    number: int = 0
    queues: Mapping[str, Mapping[str, float | None]] = {}
    left_out: int = 0
    trouble: str = ""


class LogCollector:
    """Reads from `start` on until it is closed. `look` from any thread.

    It reads every ten seconds what is new, and after each megabyte rests for as long as that took:
    it never takes more than half of a processor. It keeps some 240 bytes a queue and minute.

    A start counts in the minute it was written in, what was charged for it as its queue's share,
    and how long its message had waited: from its publication if that is known, else from when it
    came to the worker. Of a backlog the largest that was written down in the minute counts.

    Arguments:
        folder: the event log's.
        minutes: how many are kept.
        most: queues that they are kept of; all others together are "other".
    """

    def __init__(self, folder: Path, minutes: int = 360, most: int = 200) -> None:
        self.folder = folder
        self.history = History(_in_a_minute, minutes)
        self._minutes = minutes
        self._most = most
        self._reader = LogReader(folder)
        self._hours = Hours()
        self._names: set[str] = set()
        self._seen: dict[str, int] = {}
        self._closed = Event()
        self._thread = Thread(target=self._run, name="event log", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Read no more."""
        self._closed.set()

    def look(self) -> Hours:
        """Return what is known now."""
        return self._hours

    def read(self) -> None:
        """Take in what is new."""
        trouble, now = "", time()
        self.advance(now)
        try:
            for lines in self._reader.chunks(now - self._minutes * _MINUTE):
                began = monotonic()
                self.take_in(lines)
                if self._closed.wait(monotonic() - began):
                    return
        except PipelineError as exc:
            trouble = str(exc)
        except Exception as exc:  # whatever is there, the next look may be better
            logger.exception("The event log in %s cannot be read", self.folder)
            trouble = f"{type(exc).__name__}; this server's log has more"
        number = self._hours.number + 1
        self._hours = Hours(number, self.sums(), self._reader.left_out, trouble)

    def advance(self, now: float) -> None:
        """Let the last minute be that of `now`, in seconds since 1970; earlier ones are dropped."""
        last, ticks = int(now // _MINUTE), self.history.ticks
        first = last - self._minutes + 1
        if ticks:
            first = max(first, int(ticks[-1].time // _MINUTE) + 1)
        ticks.extend(Tick(minute * _MINUTE) for minute in range(first, last + 1))
        self._names = {queue for tick in ticks for queue in tick.rows}

    def take_in(self, lines: Iterable[bytes]) -> None:
        """Count records; a line that is none says nothing."""
        for line in lines:
            if any(mark in line for mark in _MARKS):
                try:
                    self._count(json.loads(line))
                except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
                    continue

    def sums(self) -> dict[str, dict[str, float | None]]:
        """Return what each queue did in all of these minutes, that which was charged most first."""
        rows: dict[str, array[float]] = {}
        for tick in self.history.ticks:
            for queue, row in tick.rows.items():
                known = rows.get(queue, _NOTHING)
                rows[queue] = array("d", map(add, known, row))
                rows[queue][_DEPTH] = max(known[_DEPTH], row[_DEPTH])
        charged = sum(row[_COST] for row in rows.values())
        return {
            queue: {figure: _figure(rows[queue], figure, charged) for figure in _SUMS}
            for queue in sorted(rows, key=lambda queue: (-rows[queue][_COST], queue))
        }

    def _count(self, record: dict[str, Any]) -> None:
        seq, boot, minute = record["seq"], record["boot"], record["at"] * 1e-6 // _MINUTE
        if record["v"] != VERSION or self._seen.get(boot, -1) >= seq:
            return
        self._seen.pop(boot, None)
        self._seen[boot] = seq
        if len(self._seen) > _PROCESSES:
            del self._seen[next(iter(self._seen))]
        number = int(minute - self.history.ticks[0].time // _MINUTE)
        if not 0 <= number < len(self.history.ticks):
            return
        tick = self.history.ticks[number]
        row = self._row(tick, str(record["queue"])[:_NAME])
        if record["kind"] == "queue":
            depth = record.get("depth")
            if depth is not None and math.isfinite(depth):
                row[_DEPTH] = max(row[_DEPTH], float(depth))
        elif record["kind"] == "started":
            cost, came = record.get("cost"), record.get("published") or record.get("received")
            charged = 1.0 if cost is None else float(cost)
            charged = max(0.0, charged) if math.isfinite(charged) else 1.0
            row[_STARTS] += 1
            row[_COST] += charged
            tick.charged += charged
            if came is not None:
                row[_WAITS + bisect_left(BOUNDS, (record["at"] - came) * 1e-6)] += 1

    def _row(self, tick: Tick, queue: str) -> "array[float]":
        if queue not in self._names and len(self._names) >= self._most:
            queue = OTHER
        self._names.add(queue)
        return tick.rows.setdefault(queue, _NOTHING[:])

    def _run(self) -> None:
        while not self._closed.is_set():
            self.read()
            self._closed.wait(_EVERY)


def _in_a_minute(tick: Tick, queue: str, figure: str) -> float | None:
    """Return a queue's figure in a minute; None if nothing was started in it, of any queue."""
    row = tick.rows.get(queue, _NOTHING)
    return _figure(row, figure, tick.charged) if tick.charged else None


def _figure(row: "array[float]", figure: str, charged: float) -> float | None:
    match figure:
        case "share":
            return row[_COST] / charged if charged else None
        case "per_second":
            return row[_STARTS] / _MINUTE
        case "median":
            return quantile(row[_WAITS:], 0.5)
        case "p95":
            return quantile(row[_WAITS:], 0.95)
        case _:
            return row[_DEPTH if figure == "depth" else _STARTS]
