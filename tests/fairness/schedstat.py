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

    def own_time_since(self, earlier: Moment) -> float:
        """Time that passed, less what others took: what would have passed on a free machine."""
        return (self.clock - earlier.clock) - (self.queued - earlier.queued)
