"""What keeps a queue that has messages from starting one now: a pause, a cap, a leash.

A closed gate holds back its own queue only: the chooser leaves the queue out until the gate may be
open again, and chooses among the others.
"""

import math
from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar

from celery_fair.core.token_bucket import TokenBucket

REASONS = ("paused", "cap", "leash")

_FENCED = 0.1
"""Seconds after which a fence is looked at again: until then, its queue is cancelled, as a rule."""

SLACK = 0.25
"""Seconds by which starts may trail decisions; see `celery_fair.core.token_bucket`."""


class Hold(NamedTuple):
    """Why a queue is held back, and until when at the most."""

    reason: str  # one of REASONS
    until: float  # on the clock of the decisions; infinite where an event ends it, not time


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


class LocalLeash(TokenBucket):
    """One worker's own.

    Arguments:
        rate: tokens a second.
        burst: tokens that it holds at the most.
    """

    def __init__(self, rate: float, burst: float, now: float) -> None:
        super().__init__(rate, burst, now, slack=SLACK)


class Limits(Protocol):
    """What a gate reads of a queue's options."""

    @property
    def max_in_flight(self) -> int | None:
        """The cap: how many messages of the queue may run at once; None for any number."""


L = TypeVar("L", bound=Limits)


class Gate(Generic[L]):
    """One queue's gate. Opened and closed by an operator, by its cap, by its leash.

    Attributes:
        options: of the queue, as they are now.
        leash: its leash, if it has one.
        paused: whether an operator holds the queue back.
    """

    def __init__(self, options: L, leash: Leash | None) -> None:
        self.options = options
        self.leash = leash
        self.paused = False
        self._is_over: Callable[[float], bool] | None = None

    def change(self, options: L, leash: Leash | None) -> None:
        """Go on with other options, and the leash that belongs to them."""
        self.options, self.leash = options, leash

    def pause(self, paused: bool) -> None:
        """Close the gate, whatever the leash and the cap say, or end that."""
        self.paused = paused

    def fence(self, is_over: Callable[[float], bool]) -> None:
        """Close the gate as soon as this says, at a given time, that the queue is not ours."""
        self._is_over = is_over

    @property
    def fenced(self) -> bool:
        """Whether the queue may become somebody else's."""
        return self._is_over is not None

    def is_over(self, now: float) -> bool:
        """Whether the queue is not ours any more."""
        return self._is_over is not None and self._is_over(now)

    def hold(self, now: float, running: int) -> Hold | None:
        """Return why the queue may not start a message now, or None and take a token for it.

        Arguments:
            running: how many messages of the queue run.
        """
        held = self.look(now, running)
        if held is None and self.leash is not None and not self.leash.take(now):
            held = Hold("leash", self.leash.when(now))
        return held

    def look(self, now: float, running: int) -> Hold | None:
        """As `hold`, by pause and cap alone, and without taking anything."""
        if self.paused:
            return Hold("paused", math.inf)
        if self.is_over(now):
            return Hold("paused", now + _FENCED)
        cap = self.options.max_in_flight
        if cap is not None and running >= cap:
            return Hold("cap", math.inf)
        return None

    def give_back(self, now: float) -> None:
        """What the gate was passed for did not start."""
        if self.leash is not None:
            self.leash.give_back(now)
