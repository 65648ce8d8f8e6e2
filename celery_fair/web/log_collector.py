"""The thread that reads the event log, for the page of the last hours: bounded, without Spark.

Files are known by their inode, as they are renamed when they are sealed; of each it is known how
far it was read. A pack that appears later has what was read before it was packed. The first time
the newest files are read, up to so many bytes, in the order of their names: so each process's
records come in theirs.
"""

import gzip
import json
import logging
import math
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from operator import add
from pathlib import Path
from threading import Event, Thread
from time import monotonic, time
from typing import Any, BinaryIO, NamedTuple, cast

from celery_fair.core.keys.sketch import OTHER
from celery_fair.eventlog.log_file import OPEN
from celery_fair.eventlog.packer import PACKED
from celery_fair.eventlog.records import VERSION
from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.log_files import log_files
from celery_fair.web.history import History, Tick
from celery_fair.web.snapshot import quantile
from celery_fair.worker.observe.figures import BOUNDS

logger = logging.getLogger(__name__)

FIGURES = ("share", "per_second", "median", "p95", "depth")
"""Of each minute."""

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

_CHUNK = 1 << 20
_MOST = 256 << 20
"""Bytes that are read in one pass, at the most."""

_SQUEEZED = 10
"""How many times larger a pack is when it is unpacked, about."""


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
            queue: _figures(rows[queue], charged)
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


def _in_a_minute(tick: Tick, queue: str) -> Mapping[str, float | None]:
    """Return a queue's figures in a minute; none if nothing was started in it, of any queue."""
    if not tick.charged:
        return {}
    row = tick.rows.get(queue, _NOTHING)
    return {**_figures(row, tick.charged), "per_second": row[_STARTS] / _MINUTE}


def _figures(row: "array[float]", charged: float) -> dict[str, float | None]:
    return {
        "share": row[_COST] / charged if charged else None,
        "starts": row[_STARTS],
        "median": quantile(row[_WAITS:], 0.5),
        "p95": quantile(row[_WAITS:], 0.95),
        "depth": row[_DEPTH],
    }


class _File(NamedTuple):
    order: str
    """By host, and in time."""

    path: Path
    inode: tuple[int, int]
    size: int
    changed: float
    is_packed: bool


class LogReader:
    """Reads what is new at each pass.

    Arguments:
        folder: the log's.
        most: bytes that one pass reads; of more, the oldest are left out.

    Attributes:
        left_out: bytes that were.
    """

    def __init__(self, folder: Path, most: int = _MOST) -> None:
        self._folder = folder
        self._most = most
        self._read: dict[tuple[int, int], int] = {}
        self._has_read = False
        self.left_out = 0

    def chunks(self, since: float) -> Iterator[list[bytes]]:
        """Yield lines that were not there at the last pass, some at a time.

        Arguments:
            since: files that have not changed since then are left out; seconds since 1970.

        Raises:
            celery_fair.pipeline.errors.PipelineError: a folder cannot be read.
        """
        files, before, first = [*self._files(since)], self._read, not self._has_read
        self._read = {
            file.inode: before.get(file.inode, file.size if file.is_packed and not first else 0)
            for file in files
        }
        self._has_read = True
        for file in sorted(self._chosen(files)):
            yield from self._lines(file)

    def _files(self, since: float) -> Iterator[_File]:
        for path in log_files(self._folder, "*.jsonl*"):
            if not path.name.endswith((".jsonl", PACKED)):
                continue
            try:
                stat = path.stat()
            except OSError:  # sealed, or packed, just now
                continue
            if stat.st_mtime >= since:
                order = str(path.with_name(path.name.removeprefix(OPEN)))
                inode, is_packed = (stat.st_dev, stat.st_ino), path.name.endswith(PACKED)
                yield _File(order, path, inode, stat.st_size, stat.st_mtime, is_packed)

    def _chosen(self, files: list[_File]) -> Iterator[_File]:
        """Yield what is to be read: the newest, as much as is allowed."""
        left = self._most
        for file in sorted(files, key=lambda file: file.changed, reverse=True):
            size = max(0, file.size - self._read[file.inode])
            if file.is_packed:
                size *= _SQUEEZED
            taken = size if size <= left else 0 if file.is_packed else left
            left = max(0, left - size)
            self.left_out += size - taken
            self._read[file.inode] = file.size if file.is_packed else file.size - taken
            if taken:
                yield file

    def _lines(self, file: _File) -> Iterator[list[bytes]]:
        rest = b""
        try:
            with file.path.open("rb") as plain:
                if not file.is_packed:
                    plain.seek(self._read[file.inode])
                source = cast(BinaryIO, gzip.GzipFile(fileobj=plain) if file.is_packed else plain)
                while chunk := source.read(_CHUNK):
                    *lines, rest = (rest + chunk).split(b"\n")
                    if not file.is_packed:
                        self._read[file.inode] = plain.tell() - len(rest)
                    yield lines
                    if len(rest) > _CHUNK:  # no record is as long
                        rest = b""
        except (OSError, EOFError, zlib.error):  # gone, or a pack that is none
            pass
