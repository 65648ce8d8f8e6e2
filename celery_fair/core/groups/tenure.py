"""What a member may consume now, by its own clock.

It is told of its turns (see `core.groups.membership`), and when it *asked* for each. From that
moment on the lease lasts at least its full length; a margin before the end the member stops
consuming, whatever has become of its next turn.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from celery_fair.core.groups.membership import Terms, Turn


class Change(NamedTuple):
    """What is to be done, in this order."""

    revoked: frozenset[str]
    assigned: dict[str, int]  # with tokens


class Tenure:
    """A member's partitions.

    Arguments:
        terms: for how long a turn is good, and running work is waited for.

    Attributes:
        owned: what is consumed, with its tokens.
        until: when consumption must have ended.
    """

    def __init__(self, terms: Terms) -> None:
        self.owned: dict[str, int] = {}
        self.until = float("-inf")
        self._terms = terms
        self._stopping: dict[str, float] = {}

    def holds(self, now: float, runs: Callable[[str], bool]) -> frozenset[str]:
        """Return what must not be given to anybody else yet.

        Arguments:
            runs: whether something of a partition still runs here.
        """
        self._stopping = {
            name: until for name, until in self._stopping.items() if now < until and runs(name)
        }
        return frozenset(self.owned) | frozenset(self._stopping)

    def took(self, turn: Turn, asked: float, now: float) -> Change:
        """A turn was taken, and the store has it.

        Arguments:
            asked: when the store was asked; with that the lease began at the latest.
        """
        self.until = max(self.until, asked + self._terms.safe)
        granted = {} if now >= self.until else turn.granted
        revoked = {name for name, token in self.owned.items() if granted.get(name) != token}
        assigned = {name: token for name, token in granted.items() if name not in self.owned}
        assigned |= {name: granted[name] for name in revoked & granted.keys()}
        self._stop(revoked, now)
        self.owned |= assigned
        return Change(frozenset(revoked), assigned)

    def lapsed(self, now: float) -> frozenset[str]:
        """Return what must not be consumed any more since the lease is over, or is about to be."""
        if now < self.until:
            return frozenset()
        return self.left(now)

    def left(self, now: float) -> frozenset[str]:
        """Return all that was consumed: it is to be given up."""
        revoked = frozenset(self.owned)
        self._stop(revoked, now)
        return revoked

    def _stop(self, revoked: set[str] | frozenset[str], now: float) -> None:
        for name in revoked:
            del self.owned[name]
            self._stopping[name] = now + self._terms.patience


class ClockWatch:
    """Whether another machine's clock runs as ours does, or has stepped.

    A lease that ended while both ran alike has run out. One that ended by a step has not, be it at
    once or soon after: whoever has it is alive, perhaps, and will renew it as soon as it sees the
    new time. The same holds for one that had ended before we first looked, for a step may have come
    just before. So after a step, and at first, all leases are *in doubt* for a while, and count.

    The other clock was read between two looks at ours, so its lead is known to within their
    distance. The least upper bound is remembered; a lead that is larger by more than the tolerance
    is a step, or the drift of a day, which costs no more than a moment of doubt.

    Arguments:
        doubt: seconds for which leases are in doubt, by our clock.
    """

    def __init__(self, doubt: float) -> None:
        self._doubt = doubt
        self._lead = -math.inf
        self._sure_at = -math.inf

    def doubts(self, shown: float, asked: float, answered: float) -> bool:
        """Return whether leases are in doubt that have run out by that clock.

        Arguments:
            shown: what it showed, in seconds, at some time between these two of ours:
            asked: the first.
            answered: the second.
        """
        if shown - answered > self._lead + self._doubt / 2:
            self._lead = shown - asked
            self._sure_at = answered + self._doubt
        self._lead = min(self._lead, shown - asked)
        return answered < self._sure_at
