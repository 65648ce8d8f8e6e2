"""A sample of starts with soft edges.

Two processes of a pool may record two starts in the other order, and a queue
whose refill was waited for is served later within its round. Cut anywhere, a
sample then counts a message more or less, which is a per cent or two of what
p0 gets in the sample. So a start's weight rises over the first rounds of a
sample and falls over its last: the mean of all samples of the same length that
begin in its first rounds. A start that is out of order by some places then
weighs more or less by some hundredths of a message, and a queue that is served
last in its round for once, by a quarter of its visit at the most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.apps.recorder import Record

EDGE = 4
"""Rounds."""


def weighed(
    starts: Sequence[Record], edge: int, cost: Callable[[Record], float] = lambda record: 1
) -> dict[str, float]:
    """What each queue got, with edges of so many starts."""
    got: dict[str, float] = {}
    for place, record in enumerate(starts, start=1):
        weight = min(1, place / (edge + 1), (len(starts) + 1 - place) / (edge + 1))
        got[record.queue] = got.get(record.queue, 0) + weight * cost(record)
    return got
