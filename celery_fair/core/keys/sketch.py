"""Which keys come most often, of more than can be counted: Space-Saving.

At most `capacity` keys have a count. A key that has none takes the place of the one with the least,
and goes on from there: its count is too large by that much at the most, its *error*. So of N keys
every one that came more than N / capacity times has a count, and what was counted for sure, count
less error, is never too large. (Metwally, Agrawal & El Abbadi, "Efficient computation of frequent
and top-k elements in data streams", 2005.)

`TopKeys` tells by that who has figures of their own: whoever was first, and after each period those
that came most in it. All others are one. So a figure is kept for a bounded number of keys at a
time, and named for a bounded number in an hour, whoever comes.
"""

from collections import Counter
from heapq import heappop, heappush, heapreplace

OTHER = "other"
"""All keys that have no figures of their own."""

_CAPACITY = 8
"""Keys that are counted, for each that has figures of its own."""


class SpaceSaving:
    """Counts of the keys that come most often.

    Arguments:
        capacity: how many keys are counted at the most.
    """

    __slots__ = ("_capacity", "_counts", "_errors", "_heap")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._counts: dict[str, int] = {}
        self._errors: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []  # a key once each; a count may have grown since

    def add(self, key: str) -> None:
        """A key has come."""
        counts = self._counts
        if key in counts:
            counts[key] += 1
            return
        error = 0
        if len(counts) == self._capacity:
            error, least = self._least()
            heappop(self._heap)
            del counts[least], self._errors[least]
        counts[key], self._errors[key] = error + 1, error
        heappush(self._heap, (error + 1, key))

    def _least(self) -> tuple[int, str]:
        while True:
            count, key = self._heap[0]
            if self._counts[key] == count:
                return count, key
            heapreplace(self._heap, (self._counts[key], key))

    def sure(self) -> dict[str, int]:
        """Return how often each came at the least."""
        return {key: count - self._errors[key] for key, count in self._counts.items()}

    def top(self, most: int) -> list[str]:
        """Return the keys that came most often for sure, the first one first."""
        sure = self.sure()
        return sorted(sure, key=lambda key: (-sure[key], key))[:most]


class RecentKeys:
    """How often keys came in this minute and the one before, as far as that is counted.

    Arguments:
        capacity: how many keys are counted in a minute, at the most.
    """

    __slots__ = ("_before", "_capacity", "_minute", "_now")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._minute = 0
        self._now, self._before = SpaceSaving(capacity), SpaceSaving(capacity)

    def add(self, key: str, now: float) -> None:
        """A key has come, at a time in seconds, of a clock whose minutes are meant."""
        self._pass(now)
        self._now.add(key)

    def counts(self, now: float) -> dict[str, int]:
        """Return how often each came for sure."""
        self._pass(now)
        return Counter(self._now.sure()) + Counter(self._before.sure())

    def _pass(self, now: float) -> None:
        minute = int(now // 60)
        if minute != self._minute:
            empty = SpaceSaving(self._capacity)
            self._before = self._now if minute == self._minute + 1 else empty
            self._minute, self._now = minute, SpaceSaving(self._capacity)


class TopKeys:
    """How often keys have come, by the keys that have figures of their own, and `OTHER`.

    What one has counted when it loses its own is counted among the others from then on: in total
    no figure goes back.

    Arguments:
        most: how many have figures of their own.
        period: for how many seconds at least.
    """

    __slots__ = ("_most", "_period", "_sketch", "_totals", "_until")

    def __init__(self, most: int, period: float) -> None:
        self._most = most
        self._period = period
        self._until: float | None = None
        self._sketch = SpaceSaving(_CAPACITY * most)
        self._totals: dict[str, int] = {}

    def add(self, key: str, now: float) -> None:
        """A key has come, at a time in seconds, of any clock that does not go back."""
        if self._until is None:
            self._until = now + self._period
        elif now >= self._until:
            self._until = now + self._period
            self._choose()
        self._sketch.add(key)
        label = self.label(key)
        if label == OTHER and len(self._totals) - (OTHER in self._totals) < self._most:
            label = key
        self._totals[label] = self._totals.get(label, 0) + 1

    def label(self, key: str) -> str:
        """Return what a key goes by."""
        return key if key in self._totals else OTHER

    @property
    def totals(self) -> dict[str, int]:
        """How often each came since it has figures of its own, and all others together."""
        return dict(self._totals)

    def _choose(self) -> None:
        chosen = set(self._sketch.top(self._most))
        self._sketch = SpaceSaving(_CAPACITY * self._most)
        for key in self._totals.keys() - chosen - {OTHER}:
            self._totals[OTHER] = self._totals.get(OTHER, 0) + self._totals.pop(key)
        for key in chosen:
            self._totals.setdefault(key, 0)
