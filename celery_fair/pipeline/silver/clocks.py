"""Clocks that are not set, or ahead.

A small computer without a battery boots in 1970, or some later year of its maker's, writes its log
with such times, and some minutes later is told that it is 2026.

What it wrote before tells the order of things there, and how long they took, but not when: it can
be compared with no other host's times. And what lasts from such a time to a true one has not lasted
for half a century.

Another host's clock may be years ahead. By its times all others have been silent since.
"""

from time import time

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

EARLIEST = 1_577_836_800.0
"""2020-01-01, in seconds since 1970: no worker wrote such a log before."""

_AHEAD = 86400.0
"""Seconds by which a clock may be ahead of this machine's, where nothing is compared by it."""

LONGEST = 366 * 86400.0
"""Seconds that anything here lasts at the most; what is longer, a clock has made up."""


def is_set(name: str) -> Column:
    """Whether a time is one that a clock shows which has been set."""
    return F.col(name) >= EARLIEST


def is_true(name: str) -> Column:
    """Whether a time is one that a clock shows which has been set, and is not a day ahead."""
    return F.col(name).between(EARLIEST, time() + _AHEAD)


def horizon(processes: DataFrame) -> DataFrame:
    """The time of the last record of all."""
    return processes.where(is_true("last_at")).agg(F.max("last_at").alias("horizon"))
