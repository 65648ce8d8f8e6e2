"""What keeps a queue that has messages from starting one now: a pause, a cap, a leash.

A closed gate holds back its own queue only: the scheduler leaves the queue out until the gate may
be open again, and chooses among the others.
"""

import math
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple, Protocol

from celery_fair.core.token_bucket import TokenBucket
from celery_fair.settings import QueueOptions

__all__ = ["REASONS", "SLACK", "Gate", "Hold", "Leash", "LocalLeash", "changed"]

REASONS = ("paused", "cap", "leash")

_FENCED = 0.1
"""Seconds after which a fence is looked at again: until then, its queue is cancelled, as a rule."""

SLACK = 0.25
"""Seconds by which starts may trail decisions; see `celery_fair.core.token_bucket`."""


class Hold(NamedTuple):
    """Why a queue is held back, and until when at the most."""

    reason: str  # one of REASONS
    until: float  # on the monotonic clock; infinite where an event ends it, not time


class Leash(Protocol):
    """A token bucket, of one worker or of many."""

    def take(self, now: float) -> bool:
        """Take a token if there is one."""

    def give_back(self, now: float) -> None:
        """Return a token: what it was taken for did not start."""

    def when(self, now: float) -> float:
        """When to ask again after a refusal."""

    def change(self, rate: float, burst: float, now: float) -> None:
        """Go on with another rate and burst, and not a token more than there is."""


class LocalLeash:
    """One worker's own."""

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._bucket = TokenBucket(rate, burst, now, slack=SLACK)

    def take(self, now: float) -> bool:
        return self._bucket.take(now)

    def give_back(self, now: float) -> None:
        self._bucket.give_back()

    def when(self, now: float) -> float:
        return self._bucket.when(now)

    def change(self, rate: float, burst: float, now: float) -> None:
        self._bucket = changed(self._bucket, rate, burst, now)


def changed(bucket: TokenBucket, rate: float, burst: float, now: float) -> TokenBucket:
    """Return a bucket of another rate and burst, with the tokens that are left of `bucket`'s."""
    after = TokenBucket(rate, burst, now, bucket.slack)
    missing = burst - bucket.level(now)
    if missing > 0:
        after.take(now, missing)
    return after


class Gate:
    """One queue's gate. Opened and closed by an operator, by its cap, by its leash."""

    def __init__(self, options: QueueOptions, leash: Leash | None) -> None:
        self.paused = False
        self.fence: Callable[[], bool] = lambda: False  # whether the queue is not ours any more
        self.options = options
        self.leash = leash

    def hold(self, now: float, in_flight: int) -> Hold | None:
        """Return why the queue may not start a message now, or None and take a token for it."""
        held = self.look(in_flight)
        if held is None and self.leash is not None and not self.leash.take(now):
            held = Hold("leash", self.leash.when(now))
        return held

    def look(self, in_flight: int) -> Hold | None:
        """As `hold`, by pause and cap alone, and without taking anything."""
        if self.paused:
            return Hold("paused", math.inf)
        if self.fence():
            return Hold("paused", monotonic() + _FENCED)
        cap = self.options.max_in_flight
        if cap is not None and in_flight >= cap:
            return Hold("cap", math.inf)
        return None

    def give_back(self, now: float) -> None:
        """What the gate was passed for did not start."""
        if self.leash is not None:
            self.leash.give_back(now)
