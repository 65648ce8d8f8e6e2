"""Levels of a logical queue: which physical queue a priority goes to."""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

HIGHEST = 9
"""Priorities are whole numbers from 0 to 9, the higher the more urgent."""


@dataclass(frozen=True)
class Levels:
    """The physical queues, the least urgent first.

    Attributes:
        queues: their names.
        ranks: for each priority from 0 to 9, its queue's index in `queues`.
    """

    queues: tuple[str, ...]
    ranks: tuple[int, ...]

    def queue(self, priority: int | None) -> str:
        """Return the queue of a priority; one out of range counts as the nearest, None as 0."""
        return self.queues[self.ranks[min(max(priority or 0, 0), HIGHEST)]]

    def lowest(self, queue: str) -> int:
        """Return the lowest priority that belongs to a queue of these."""
        return self.ranks.index(self.queues.index(queue))


def check_levels(value: Any) -> Levels:
    """Return the levels for a mapping of queue names to ``[lowest, highest]`` priority.

    Raises:
        ValueError: the ranges overlap, leave a priority out, or are none.
    """
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"levels must map queue names to [lowest, highest], not {value!r}")
    ranges = sorted(
        ((_range(name, bounds), name) for name, bounds in value.items()), key=itemgetter(0)
    )
    expected = 0
    for (low, high), name in ranges:
        if low < expected:
            raise ValueError(f"priority {low} of {name!r} is in another level too")
        if low > expected:
            raise ValueError(
                f"no level has priority {expected}; the next, {name!r}, starts at {low}"
            )
        expected = high + 1
    if expected <= HIGHEST:
        raise ValueError(f"no level has priority {expected}; levels must reach up to {HIGHEST}")
    ranks = [rank for rank, ((low, high), _) in enumerate(ranges) for _ in range(low, high + 1)]
    return Levels(tuple(name for _, name in ranges), tuple(ranks))


def _range(name: Any, bounds: Any) -> tuple[int, int]:
    if isinstance(bounds, (list, tuple)) and list(map(type, bounds)) == [int, int]:
        low, high = bounds
        if 0 <= low <= high <= HIGHEST:
            return low, high
    raise ValueError(
        f"the range of {name!r} must be [lowest, highest] within 0 to {HIGHEST}, not {bounds!r}"
    )
