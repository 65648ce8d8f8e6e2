"""A process's time as the kernel accounts for it: worked, waited for a processor, slept."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple


class Moment(NamedTuple):
    """Seconds; differences of two moments are what counts."""

    clock: float
    worked: float
    queued: float
    """Ready to run, while the processors were others'."""

    @classmethod
    def of(cls, pid: int) -> Moment:
        """Now, for the main thread of a process."""
        worked, queued, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
        return cls(time.monotonic(), int(worked) / 1e9, int(queued) / 1e9)


class Watch:
    """Some processes that work one after another for one thing, from now on."""

    def __init__(self, *pids: int) -> None:
        self._began = {pid: Moment.of(pid) for pid in pids}

    def asleep(self) -> float:
        """The part of the time until now in which none of them had anything to do.

        Of their own time: that which others took of the processors is nobody's.
        """
        passed = [(Moment.of(pid), before) for pid, before in self._began.items()]
        clock = max(now.clock - before.clock for now, before in passed)
        own = clock - sum(now.queued - before.queued for now, before in passed)
        return 1 - sum(now.worked - before.worked for now, before in passed) / own
