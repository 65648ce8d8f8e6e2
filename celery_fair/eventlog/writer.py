"""Writing the log, in each process for itself.

A worker is never held up by its log, and never fails because of it: a record that cannot be written
is counted, and its number is missing in the file. A process's first record is forced to the disk:
whatever a power loss takes of its log, it shows that there was one.

One record is written at a time, by the thread that has the log's lock. A signal handler may run in
the middle of that, in the same thread: its record is then left to the write that it interrupts,
which writes it next. The handler may also wait for another thread, as a cold shutdown does for the
pool's, and that thread may be waiting for the lock. So nobody waits for the lock for ever, and a
thread that gives up leaves its record to the lock's holder in the same way.
"""

import json
import logging
import os
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from json.encoder import encode_basestring_ascii
from pathlib import Path
from threading import RLock
from time import time_ns
from typing import Any
from weakref import WeakSet

from celery_fair.eventlog.log_file import LogFile, new_name, sealed_name
from celery_fair.eventlog.records import KINDS, VERSION

logger = logging.getLogger(__name__)

_PATIENCE = 5.0
"""Seconds to wait for another thread's record, which takes microseconds."""

_RETRY = 5_000_000
"""Microseconds until a file that could not be opened, or written, is tried again."""


@dataclass(frozen=True)
class Policy:
    """How the log is kept.

    Attributes:
        folder: where; each host has a folder of its own in it.
        fsync: "never", "seal" (once a file) or "always" (each record).
        rotate: seconds after which a file is sealed, with its next record.
        rotate_bytes: the size at which it is.
        limit: bytes that the sealed files of a host may take; the oldest are deleted.
    """

    folder: Path
    fsync: str = "never"
    rotate: float = 60.0
    rotate_bytes: int = 64 << 20
    limit: int = 10 << 30


class EventLog:
    """A process's log; after a fork the child has another one.

    Arguments:
        node: the worker's name.
    """

    def __init__(self, policy: Policy, node: str) -> None:
        self.policy, self.node = policy, node
        self._rotate, self._rotate_size = int(policy.rotate * 1e6), policy.rotate_bytes
        self._rotate_at = 0
        self._sync = policy.fsync == "always"
        self.parent = ""
        self._file: LogFile | None = None
        self._begin()
        self.parent = self.boot
        _logs.add(self)

    def _begin(self) -> None:
        self._lock = RLock()
        self._writing = self._closing = False
        self._left: deque[tuple[str, str]] = deque()
        self.pid = os.getpid()
        self.boot = new_name()
        self.dropped = 0
        self._seq = 0
        self._files = count()
        self._retry_at = 0
        same = f'"v":{VERSION},"node":{quoted(self.node)},"pid":{self.pid},"boot":"{self.boot}"'
        self._heads = {kind: f'{{{same},"kind":"{kind}","seq":' for kind in KINDS}

    def after_fork(self) -> None:
        """In a child: leave the parent's file alone, and be a process of one's own."""
        if self._file is not None:
            self._file.forget()
            self._file = None
        self._begin()

    def record(self, kind: str, fields: Mapping[str, Any]) -> bool:
        """Write one record; say whether it has been written."""
        return self.write(kind, json.dumps(fields, separators=(",", ":"))[1:-1])

    def keeps(self, kind: str, fields: Mapping[str, Any]) -> bool:
        """Write one record; say whether it is in a file that is there, not in one taken away."""
        written = self.record(kind, fields)
        file = self._file
        return written and file is not None and file.is_there

    def write(self, kind: str, fields: str) -> bool:
        """Write one record, whose own fields are JSON without the braces.

        Returns:
            Whether it has been; it may also be left to the write that it interrupts.
        """
        lock = self._lock
        if not (lock.acquire(False) or lock.acquire(timeout=_PATIENCE)):
            self._left.append((kind, fields))
            return False
        try:
            if self._writing:
                self._left.append((kind, fields))
                return False
            self._writing = True
            try:
                return self._append(kind, fields)
            finally:
                self._writing = False
                if self._left or self._closing:
                    self._catch_up()
        finally:
            lock.release()

    def _append(self, kind: str, fields: str) -> bool:
        seq = self._seq
        self._seq = seq + 1
        now = time_ns() // 1000
        line = f'{self._heads[kind]}{seq},"at":{now},{fields}}}\n'.encode()
        try:
            file = self._file
            if file is None or now >= self._rotate_at or file.size >= self._rotate_size:
                file = self._file_at(now)
            file.append(line, self._sync or not seq)
        except OSError as exc:
            self._drop(exc, now)
            return False
        return True

    def _catch_up(self) -> None:
        """Do what was left to us meanwhile."""
        while self._left or self._closing:
            self._writing = True
            try:
                while self._left:
                    self._append(*self._left.popleft())
                if self._closing:
                    self._closing = False
                    self._seal()
            finally:
                self._writing = False

    def _file_at(self, now: int) -> LogFile:
        """Return a new file, unless none could be made a moment ago."""
        file = self._file
        if now < self._retry_at:
            if file is None:
                raise OSError("the log could not be written a moment ago")
            return file
        number = next(self._files)
        name = sealed_name(self.node, self.pid, self.boot, number)
        self._file = LogFile(host_folder(self.policy.folder), name, lasting=not number)
        self._rotate_at = self._file.since + self._rotate
        if file is not None:  # not before: an open file is what shows that a process was killed
            file.seal(self.policy.fsync != "never")
        return self._file

    def _drop(self, exc: OSError, now: int) -> None:
        self.dropped += 1
        if self._file is not None:
            self._file.fall_behind()
        if now >= self._retry_at:
            logger.error(
                "Cannot write the event log in %s: %s; %s records are missing so far, tasks go on",
                self.policy.folder,
                exc,
                self.dropped,
            )
            self._retry_at = now + _RETRY

    def close(self) -> None:
        """Seal the file; a record after this begins another."""
        self._closing = True
        if self._lock.acquire(timeout=_PATIENCE):
            try:
                if not self._writing:
                    self._catch_up()
            finally:
                self._lock.release()

    def _seal(self) -> None:
        if self._file is not None:
            self._file.seal(self.policy.fsync != "never")
            self._file = None


def host_folder(folder: Path) -> Path:
    """Return where this host's files are."""
    return folder / os.uname().nodename


@lru_cache(maxsize=10_000)
def quoted(text: str) -> str:
    """Return a text that will come again as JSON."""
    return encode_basestring_ascii(text)


_logs: WeakSet[EventLog] = WeakSet()


def _after_fork() -> None:
    for log in list(_logs):
        log.after_fork()


os.register_at_fork(after_in_child=_after_fork)
