"""A token bucket: at most `capacity` at once, and `rate` per second in the long run.

The law
-------
With a bucket that starts full, what is taken in *any* window of t seconds is at most
``capacity + rate * t``: at the window's beginning at most `capacity` tokens are there, and ``rate * t``
come in while it lasts. An idle bucket fills up to `capacity` and no further. (Turner, "New directions
in communications", 1986, as the leaky bucket; Linux tc-tbf(8) under this name.)

The clock here is that of decisions. A task starts a moment after the decision to start it, and the
moments differ, so that a burst that starts late and successors that start promptly would break the
law as a partner's server sees it, by the difference. Hence `slack`: a bucket that is drawn from while
full begins to refill that much later. It costs nothing in the long run and nothing to a bucket that
is kept busy.
"""

import math

__all__ = ["TokenBucket", "parse_rate"]

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_EPSILON = 1e-9


class TokenBucket:
    """Time is an argument, in seconds of any one clock that does not go back.

    Arguments:
        rate: tokens per second, above zero.
        capacity: tokens that fit, at least one; the longest burst.
        now: the present time; the bucket starts full.
        slack: seconds that a refill begins late after the bucket was full.

    Raises:
        ValueError: for a rate or capacity outside these bounds.
    """

    __slots__ = ("_level", "_since", "capacity", "rate", "slack")

    def __init__(self, rate: float, capacity: float, now: float, slack: float = 0.0) -> None:
        if not (math.isfinite(rate) and rate > 0):
            raise ValueError(
                f"rate must be a finite number of tokens per second above 0, not {rate!r}"
            )
        if not (math.isfinite(capacity) and capacity >= 1):
            raise ValueError(f"capacity must be a finite number of at least 1, not {capacity!r}")
        self.rate = rate
        self.capacity = capacity
        self.slack = slack
        self._level = capacity
        self._since = now

    def level(self, now: float) -> float:
        """Return the tokens that are there at `now`."""
        return min(self.capacity, self._level + max(0.0, now - self._since) * self.rate)

    def take(self, now: float, n: float = 1) -> bool:
        """Take `n` tokens if they are there.

        Raises:
            ValueError: `n` exceeds the capacity, so that no wait would ever do.
        """
        if n > self.capacity:
            raise ValueError(f"cannot take {n:g} at once from a bucket of {self.capacity:g}")
        level = self.level(now)
        if level + _EPSILON < n:
            return False
        full = level >= self.capacity
        self._level = level - n
        self._since = max(now + self.slack if full else now, self._since)
        return True

    def give_back(self, n: float = 1) -> None:
        """Return tokens that were taken and not used."""
        self._level = min(self.capacity, self._level + n)

    def when(self, now: float, n: float = 1) -> float:
        """Return the earliest time at which `n` tokens will be there, if none is taken before."""
        missing = n - self._level
        if missing <= _EPSILON:
            return now
        return max(now, self._since + missing / self.rate)


def parse_rate(value: object) -> float:
    """Return tokens per second for a number (per second) or a text such as "10/s", "600/m", "5/h".

    Raises:
        ValueError: for anything else.
    """
    number, unit = value, "s"
    if isinstance(value, str):
        number, _, unit = value.partition("/")
        unit = unit.strip() or "s"
    try:
        rate = float(number) / _UNITS[unit]  # type: ignore[arg-type]
    except (TypeError, ValueError, KeyError):
        rate = math.nan
    if isinstance(value, bool) or not (math.isfinite(rate) and rate > 0):
        raise ValueError(
            f"a rate is a number per second above zero or a text like '10/s', '600/m', '5/h',"
            f" not {value!r}"
        )
    return rate
