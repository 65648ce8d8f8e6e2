"""What came of a replay, by queue, and by whose messages they are; and how far that may be off.

One trace is one course of events; of another hour, with the same settings, the quantiles would be
others. Waits of messages that come one after the other depend on each other, so not messages are
drawn but *blocks* of consecutive ones (Kuensch, "The jackknife and the bootstrap for general
stationary observations", 1989). That is sound if blocks are independent of each other. They are not
if a backlog outlasts a block: then the means of neighbouring blocks go together, which is looked at
before anything is said (batch means; Law & Kelton, "Simulation modeling and analysis").

*Interval*: between what a twentieth of the draws is below and what a twentieth is above. *Bound*:
what a twentieth of the draws is above that are a quarter as long; the less there is to look at, the
more chance has a say.
"""

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from celery_fair.pipeline.replay.line import Start

QUANTILES = (50, 90, 95, 99)
SCHEMA = (
    "scenario string, queue string, key string, started long, seconds double, mean double, "
    + ", ".join(f"p{each} double" for each in QUANTILES)
    + ", longest double, ended double, "
    + ", ".join(f"p{each}_{end} double" for each in QUANTILES for end in ("low", "high", "bound"))
    + ", doubt string"
)
"""Low and high: the interval that a quantile would be in, as a rule, of another trace; null where
`doubt` says why there is none. Bound: what it would hardly ever be above, in a part of one."""

COLUMNS = tuple(column.split()[0] for column in SCHEMA.split(", "))


Whose = tuple[str, str | None]
"""A queue, and a key or none."""


@dataclass
class Outcome:
    """One queue's, or one key's."""

    waits: "array[float]" = field(default_factory=lambda: array("d"))
    seconds: float = 0.0
    ended: float = -math.inf

    def add(self, start: Start) -> None:
        self.waits.append(start.at - start.message.published)
        self.seconds += start.message.runtime
        self.ended = max(self.ended, start.at + start.message.runtime)

    def row(self, scenario: str, queue: str, key: str | None = None) -> tuple[Any, ...]:
        """Return a row of `SCHEMA`."""
        waits = sorted(self.waits)
        quantiles = (quantile(waits, each) for each in QUANTILES)
        n = len(waits)
        mean = math.fsum(waits) / n
        found = resampled(self.waits, QUANTILES)
        said = [
            value
            for interval, bound in zip(found.intervals, found.bounds, strict=True)
            for value in (*(interval or (None, None)), bound)
        ]
        first = (scenario, queue, key, n, self.seconds, mean, *quantiles, waits[-1], self.ended)
        return (*first, *said, found.doubt)


def outcomes(starts: Iterable[Start], by_key: bool = False) -> dict[Whose, Outcome]:
    """Return what came of each queue, or of each key of a queue; None are the messages of none."""
    made: dict[Whose, Outcome] = {}
    for start in starts:
        message = start.message
        whose = message.queue, message.key if by_key else None
        outcome = made.get(whose)
        if outcome is None:
            outcome = made[whose] = Outcome()
        outcome.add(start)
    return made


def quantile(ordered: list[float], percent: float) -> float:
    """Return the least value with at least `percent` of all at or below it."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


# By drawing blocks ------------------------------------------------------------

BLOCKS = 20
ABOVE = 20
"""Messages that are to be above a quantile before an interval is given for it."""

_DRAWS = 200
_OUTSIDE = 0.05
_PART = 4
_EACH = 2
"""Messages that a block has at the least; with fewer there are fewer blocks."""


class Resampled(NamedTuple):
    """What is said of the quantiles of one sequence of waits.

    Attributes:
        intervals: for each quantile from where until where, or None if the trace does not say.
        bounds: for each quantile what it is hardly ever above.
        doubt: why there is none of some interval, or None.
    """

    intervals: list[tuple[float, float] | None]
    bounds: list[float]
    doubt: str | None


def resampled(waits: Sequence[float], percents: Sequence[int]) -> Resampled:
    """Return what is to be said of some quantiles.

    Arguments:
        waits: in the order of time.
    """
    values = np.asarray(waits, dtype=float)
    n = len(values)
    blocks = max(1, min(BLOCKS, n // _EACH))
    of = np.arange(n) * blocks // n
    order = np.argsort(values, kind="stable")
    ordered, block_of = values[order], of[order]
    draw = np.random.default_rng(n)  # the same of the same trace
    whole = _quantiles(
        ordered, block_of, draw.multinomial(blocks, [1 / blocks] * blocks, _DRAWS), percents
    )
    length = max(1, blocks // _PART)
    parts = _quantiles(
        ordered, block_of, draw.multinomial(length, [1 / blocks] * blocks, _DRAWS), percents
    )
    bounds = [float(each) for each in np.quantile(parts, 1 - _OUTSIDE, axis=0, method="higher")]
    low, high = np.quantile(whole, (_OUTSIDE, 1 - _OUTSIDE), axis=0, method="nearest")
    doubt = _dependent(values, of, blocks)
    few = [n * (100 - percent) < 100 * ABOVE for percent in percents]
    intervals = [
        None if doubt or scarce else (float(a), float(b))
        for a, b, scarce in zip(low, high, few, strict=True)
    ]
    if not doubt and any(few):
        least = math.ceil(100 * ABOVE / (100 - percents[few.index(True)]))
        doubt = f"p{percents[few.index(True)]} takes {least} messages"
    return Resampled(intervals, bounds, doubt)


def _quantiles(
    ordered: NDArray[np.float64],
    block_of: NDArray[np.int64],
    draws: NDArray[np.int64],
    percents: Sequence[int],
) -> NDArray[np.float64]:
    """Return the quantiles of each draw, which says how often it has each block."""
    found = np.empty((len(draws), len(percents)))
    for row, times in zip(found, draws, strict=True):
        below = np.cumsum(times[block_of])
        ranks = [max(1, math.ceil(below[-1] * percent / 100)) for percent in percents]
        row[:] = ordered[np.searchsorted(below, ranks)]
    return found


def _dependent(values: NDArray[np.float64], of: NDArray[np.int64], blocks: int) -> str | None:
    """Say so if neighbouring blocks go together more than chance would have it."""
    if blocks < BLOCKS:
        return f"an interval takes {BLOCKS * _EACH} messages"
    means = np.bincount(of, weights=values) / np.bincount(of)
    around = means - means.mean()
    spread = float(around @ around)
    if not spread:
        return None
    together = float(around[:-1] @ around[1:]) / spread
    if together <= 1.645 / math.sqrt(blocks):  # a twentieth of independent ones is above
        return None
    return "a backlog lasts for too much of the trace; an interval takes a longer one"
