"""A profile for each key: what it may publish in passing, and what is a flood.

A bucket of tokens for each key (see `celery_fair.core.token_bucket` for the rule), kept of those
that were seen last: of one that was not seen for so long it is full again.
"""


class Profile:
    """Token buckets of the keys seen last.

    Arguments:
        burst: tokens that a bucket holds, and begins with.
        rate: tokens a second.
        most: buckets that are kept.
    """

    __slots__ = ("_buckets", "_burst", "_most", "_rate")

    def __init__(self, burst: float, rate: float, most: int) -> None:
        self._burst = burst
        self._rate = rate
        self._most = most
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens, and when; who was seen last

    def __len__(self) -> int:
        """How many buckets are kept."""
        return len(self._buckets)

    def admits(self, key: str, now: float) -> bool:
        """Take a token from a key's bucket, at this time in seconds; False if it has none."""
        tokens, then = self._buckets.pop(key, (self._burst, now))
        tokens = min(self._burst, tokens + self._rate * max(0.0, now - then))
        admitted = tokens >= 1
        self._buckets[key] = (tokens - admitted, now)
        if len(self._buckets) > self._most:
            del self._buckets[next(iter(self._buckets))]
        return admitted
