"""How far a quantile of waits may be off: by drawing blocks of the trace again and again.

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
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["ABOVE", "BLOCKS", "Resampled", "resampled"]

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
