"""A token bucket: at most `capacity` at once, and `rate` per second in the long run.

The law
-------
With a bucket that starts full, what is taken in *any* window of t seconds is at most
``capacity + rate * t``: at the window's beginning at most `capacity` tokens are there, and
``rate * t`` come in while it lasts. An idle bucket fills up to `capacity` and no further. (Turner,
"New directions in communications", 1986, as the leaky bucket; Linux tc-tbf(8) under this name.)

Slack
-----
The clock here is that of decisions. A task starts up to j seconds after the decision to start it.
If a burst starts late and its successors start promptly, a partner's server would see the law
broken: what starts within t was decided within t + j. There, too, the law holds if no window of t
has more than ``capacity + rate * (t - slack)`` taken in it, with a `slack` of at least j. From a
level L on, that needs a refill that begins ``slack - (capacity - L) / rate`` seconds later; at
``capacity - rate * slack`` and below it needs nothing.

Only an idle bucket pays: one that has had an untaken token for `slack` seconds. A busy one is drawn
from as soon as it has a token, far below that level; and a bucket too small to have such room would
lose `slack` with every token.
"""

import math

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class TokenBucket:
    """Time is an argument, in seconds of any one clock that does not go back.

    Arguments:
        rate: tokens per second, above zero.
        capacity: tokens that fit, at least one; the longest burst.
        now: the present time; the bucket starts full, like one that has long been idle.
        slack: seconds by which what tokens are taken for may trail the taking.

    Raises:
        ValueError: for a rate or capacity outside these bounds.
    """

    __slots__ = ("_level", "_since", "capacity", "rate", "slack")

    def __init__(self, rate: float, capacity: float, now: float, slack: float = 0.0) -> None:
        self.slack = slack
        self._fill(rate, capacity, now)

    def _fill(self, rate: float, capacity: float, now: float) -> None:
        if not (math.isfinite(rate) and rate > 0):
            raise ValueError(
                f"rate must be a finite number of tokens per second above 0, not {rate!r}"
            )
        if not (math.isfinite(capacity) and capacity >= 1):
            raise ValueError(f"capacity must be a finite number of at least 1, not {capacity!r}")
        self.rate = rate
        self.capacity = capacity
        self._level = capacity  # as of `_since`, before which, should it lie ahead, none comes in
        self._since = now - self.slack - capacity / rate

    def level(self, now: float) -> float:
        """Return the tokens that are there at `now`."""
        level = self._level + max(0.0, now - self._since) * self.rate
        return min(max(0.0, level), self.capacity)  # rounding may leave a little less than none

    def take(self, now: float, n: float = 1) -> bool:
        """Take `n` tokens if they are there.

        Raises:
            ValueError: `n` is not above zero, or exceeds the capacity, so that no wait would do.
        """
        if not 0 < n <= self.capacity:
            raise ValueError(f"cannot take {n:g} at once from a bucket of {self.capacity:g}")
        if now < self.when(now, n):
            return False
        level = self.level(now)
        since = max(now, self._since)
        if now - self._reached(1) >= self.slack:
            since = max(since, now + self.slack - (self.capacity - level) / self.rate)
        self._level, self._since = level - n, since
        return True

    def change(self, rate: float, capacity: float, now: float) -> None:
        """Go on with another rate and capacity, and not a token more than there is.

        Raises:
            ValueError: as for a new one.
        """
        missing = capacity - self.level(now)
        self._fill(rate, capacity, now)
        if missing > 0:
            self.take(now, missing)

    def give_back(self, now: float, n: float = 1) -> None:
        """Return tokens that were taken and not used, at any time."""
        self._level = min(self.capacity, self._level + n)

    def when(self, now: float, n: float = 1) -> float:
        """Return the earliest time at which `n` tokens will be there, if none is taken before."""
        return now if n <= self._level else max(now, self._reached(n))

    def _reached(self, n: float) -> float:
        """When the bucket came, or will come, to `n` tokens, had it filled steadily."""
        return self._since + (n - self._level) / self.rate


def parse_rate(value: object) -> float:
    """Return tokens per second for a number (per second) or a text such as "10/s", "600/m", "5/h".

    Raises:
        ValueError: for anything else.
    """
    number, unit = value, "s"
    if isinstance(value, str) and "/" in value:
        number, unit = value.split("/", 1)
    try:
        rate = float(number) / _UNITS[unit.strip()]  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, KeyError):
        rate = math.nan
    plain = isinstance(value, (int, float, str)) and not isinstance(value, bool)
    if not (plain and math.isfinite(rate) and rate > 0):
        raise ValueError(
            f"a rate is a number per second above zero or a text like '10/s', '600/m', '5/h',"
            f" not {value!r}"
        )
    return rate


class Profile:
    """A bucket for each key: what it may publish in passing, and what is a flood.

    Buckets are kept of the keys that were seen last: of one that was not seen for so long it is
    full again.

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
