"""The thread that reads the event log, for the page of the last hours."""

import logging
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic, time
from typing import Any, NamedTuple

from celery_fair.pipeline.errors import PipelineError
from celery_fair.web.log_reader import LogReader
from celery_fair.web.minutes import FIGURES, MINUTE, Minutes

__all__ = ["Hours", "LogHistory"]

logger = logging.getLogger(__name__)

_EVERY = 10.0
"""Seconds between two looks at the log."""


class Hours(NamedTuple):
    """What the log says of the last hours.

    Attributes:
        number: how often it was looked at; 0 while it is read for the first time.
        queues: their sums, by name, the one that was charged most first.
        left_out: bytes of the log that were too many.
        trouble: why it cannot be read.
    """

    number: int
    queues: dict[str, dict[str, float | None]]
    left_out: int
    trouble: str


class LogHistory:
    """Reads from `start` on until it is closed. All else from any thread.

    It reads every ten seconds what is new, and after each megabyte rests for as long as that took:
    it never takes more than half of a processor.

    Arguments:
        folder: the event log's.
    """

    def __init__(self, folder: Path, reader: LogReader | None = None) -> None:
        self.folder = folder
        self._reader = reader or LogReader(folder)
        self._minutes = Minutes()
        self._hours = Hours(0, {}, 0, "")
        self._lock = Lock()
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

    def lines(self, queues: Sequence[str]) -> dict[str, Any]:
        """Return each queue's figures, of each minute that is over, as JSON has it."""
        with self._lock:
            lines = [line[:-1] for line in self._minutes.lines(queues, FIGURES)]
            return {"times": self._minutes.times()[:-1], "lines": lines, "figures": FIGURES}

    def read(self) -> None:
        """Take in what is new."""
        trouble, now = "", time()
        with self._lock:
            self._minutes.advance(now)
        try:
            for lines in self._reader.chunks(now - self._minutes.count * MINUTE):
                began = monotonic()
                with self._lock:
                    self._minutes.take_in(lines)
                if self._closed.wait(monotonic() - began):
                    return
        except PipelineError as exc:
            trouble = str(exc)
        except Exception as exc:  # whatever is there, the next look may be better
            logger.exception("The event log in %s cannot be read", self.folder)
            trouble = f"{type(exc).__name__}; this server's log has more"
        with self._lock:
            found = self._minutes.sums()
        number = self._hours.number + 1
        self._hours = Hours(number, found, self._reader.left_out, trouble)

    def _run(self) -> None:
        while not self._closed.is_set():
            self.read()
            self._closed.wait(_EVERY)
