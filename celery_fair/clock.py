"""A clock for leases: it counts the time while the machine sleeps, which others count, too."""

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux's monotonic clock stands still while the machine is suspended, and this one does not."""


def elapsed() -> float:
    """Return seconds since some time, which no step of the wall clock changes."""
    return time.clock_gettime(_CLOCK)
