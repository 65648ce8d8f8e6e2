"""Shares of a worker, computed from what its tasks recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from tests.apps.recorder import Record

Amounts = Mapping[str, float]


def while_backlogged(
    starts: Iterable[Record],
    totals: Mapping[str, int],
    *,
    warm_up: int = 0,
    reserve: int = 1,
) -> list[Record]:
    """The starts that happened while every queue of `totals` had work.

    Ends when the first queue has fewer than `reserve` of its total left (a
    window cannot be kept full beyond that), and leaves out the first `warm_up`
    starts, during which windows fill.
    """
    left = Counter(totals)
    part: list[Record] = []
    for record in sorted(starts):
        left[record.queue] -= 1
        if left[record.queue] < reserve:
            break
        part.append(record)
    return part[warm_up:]


def amounts(
    starts: Sequence[Record], cost: Callable[[Record], float] = lambda record: 1
) -> dict[str, float]:
    """What each queue got: its starts, or the sum of their costs."""
    got: dict[str, float] = {}
    for record in starts:
        got[record.queue] = got.get(record.queue, 0) + cost(record)
    return got


def share_errors(got: Amounts, quanta: Amounts) -> dict[str, float]:
    """share / target - 1, by queue."""
    scale = sum(quanta.values()) / (sum(got.values()) or 1)
    return {queue: got.get(queue, 0) * scale / quantum - 1 for queue, quantum in quanta.items()}


def max_share_error(got: Amounts, quanta: Amounts) -> float:
    """max |share / target - 1| over the queues: the headline figure."""
    return max(map(abs, share_errors(got, quanta).values()))


def ratio(got: Amounts, over: str = "p9", under: str = "p0") -> float:
    return got[over] / got[under]


def jain_index(got: Amounts, quanta: Amounts) -> float:
    """Jain's index of got/quantum: 1 when all are served alike."""
    each = [got.get(queue, 0) / quantum for queue, quantum in quanta.items()]
    return sum(each) ** 2 / (len(each) * sum(x * x for x in each))
