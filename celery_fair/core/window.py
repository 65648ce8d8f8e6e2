"""Windows: how many messages of a queue a worker holds, and what an empty one means.

A window has two readers. The *broker* reads it as the prefetch count: it keeps at most that many
deliveries of the queue unsettled. The *scheduler* reads from it whether a queue whose buffer is
empty is idle or merely waiting for its refill.

Size: one round, and Little's law
--------------------------------
To keep a queue from running empty at the worker, its window must cover what one visit of the
scheduler takes of it, its quantum, and what the worker consumes of it while the refill is under
way: ``L = rate * delay`` (Little, 1961), where *rate* is messages per second and *delay* the
seconds from an acknowledgement to the arrival of the delivery that it allowed. Together the windows
are at most a second of work, so that other workers find something to do. Of what was delivered
before the rate fell, more may be here: it is not given back, which would count as a delivery.

The sum is divided in proportion to the queues' shares of the messages. Equal windows would not do:
a consumer that outruns its broker consumes what the broker sends, and the broker refills every
window at the same speed.

Owed: the patience rule
-----------------------
Once a window has been full, the broker is known to have had more than the worker holds: the queue
counts as *backlogged*. If its buffer is empty after that, because everything has been started and
the acknowledgements are on their way, a refill is *owed*: wait for it, for a limited time. If the
wait was in vain, the evidence no longer counts until the window has been full again, so that a
queue which only trickles is never waited for.
"""

import math
from collections.abc import Callable, Mapping

__all__ = ["LEAST", "SECONDS_OF_WORK", "Ahead", "RefillMeter", "Window", "plan"]

LEAST = 2
"""The least window: with one, every single message would fill it and count as a backlog."""

SECONDS_OF_WORK = 1.0
"""What all windows of a worker are together at the most, as time at its present rate."""

_HEADROOM = 2.0
_LONGEST_DELAY = 0.5
_PATIENCE = (0.02, 0.25)

_MOST = 32
"""Messages that are asked for at once, at the most."""

_COUNTED = 0.1
"""Seconds over which it is counted how many start."""


class Window:
    """One queue's deliveries: how many are allowed, held, and owed.

    Attributes:
        size: how many unsettled deliveries the broker allows.
        held: how many are delivered and not settled (acknowledged or rejected).
        backlogged: whether the broker is known to have more than it was allowed to send.
    """

    __slots__ = ("_delivered", "_sample", "backlogged", "held", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.held = 0
        self.backlogged = False
        self._delivered = 0
        self._sample: tuple[int, float] | None = None

    def delivered(self, now: float) -> float | None:
        """Count a delivery; return a refill delay in seconds if this one completes a sample."""
        self.held += 1
        self._delivered += 1
        if self.held >= self.size:
            self.backlogged = True
        if self._sample is None or self._delivered < self._sample[0]:
            return None
        delay = now - self._sample[1]
        self._sample = None
        return delay

    def settled(self, now: float) -> None:
        """Count a delivery that was acknowledged or rejected."""
        self.held -= 1
        if self.backlogged and self._sample is None:
            self._sample = (self._delivered + self.size - self.held, now)

    def disappointed(self) -> None:
        """Nothing came within the patience: the queue counts as idle until it fills again."""
        self.backlogged = False
        self._sample = None

    def resize(self, size: int) -> None:
        """Allow another number of deliveries; what is known of the backlog stays known."""
        self.size = size
        self._sample = None

    def renew(self, size: int) -> None:
        """Allow so many deliveries besides those that are held, which are not counted any more."""
        self.resize(size)
        self.held = 0


class RefillMeter:
    """Learns the worker's rate and the broker's refill delay; both smoothed exponentially.

    Attributes:
        rate: messages started per second, over all queues.
        delay: seconds from an acknowledgement to the delivery that it allowed.
    """

    def __init__(self, delay: float = 0.01, weight: float = 0.2) -> None:
        self.rate = 0.0
        self.delay = delay
        self._weight = weight
        self._count = 0
        self._since: float | None = None

    def refilled(self, delay: float) -> None:
        """Take in one measured refill delay, in seconds; a long one is taken as half a second."""
        delay = min(max(delay, 0.0), _LONGEST_DELAY)
        self.delay += self._weight * (delay - self.delay)

    def started(self, count: int = 1) -> None:
        """Count messages that were started."""
        self._count += count

    def interval(self, now: float) -> None:
        """Close a measuring interval and take its rate in; the first counts in full."""
        if self._since is not None and now > self._since:
            rate = self._count / (now - self._since)
            self.rate += (rate - self.rate) * (self._weight if self.rate else 1.0)
        self._since = now
        self._count = 0

    @property
    def patience(self) -> float:
        """How long, in seconds, an owed refill is waited for: a few times the usual delay."""
        least, most = _PATIENCE
        return min(max(4 * self.delay, least), most)


def plan(
    weights: Mapping[str, float], rate: float, delay: float, least_total: int
) -> dict[str, int]:
    """Return the window of each queue, in messages.

    Arguments:
        weights: per queue, the messages that one round serves of it (quantum / mean cost).
        rate: messages per second over all queues.
        delay: refill delay in seconds.
        least_total: what the windows sum up to at the least, while `rate` is not known.

    Two rounds plus what is consumed during two refills, at most a second of work, divided in
    proportion, and never less than `LEAST` for a queue.
    """
    a_round = sum(weights.values())
    wanted = _HEADROOM * (a_round + rate * delay)
    total = max(least_total, min(wanted, rate * SECONDS_OF_WORK))
    return {
        name: max(LEAST, math.ceil(total * weight / a_round - 1e-9))
        for name, weight in weights.items()
    }


class Ahead:
    """How many messages to ask for at once: what slots are free for, and what starts soon.

    Arguments:
        seconds: of work that is asked for at once: a key that was quiet waits for so much besides.
        free: returns how many slots are free.
    """

    def __init__(self, seconds: float, free: Callable[[], int]) -> None:
        self._seconds, self._free = seconds, free
        self._soon = 0
        self._since, self._given_by_then = 0.0, 0

    def count(self, given: int, now: float) -> int:
        """Return how many to ask for.

        Arguments:
            given: messages that the queue has given so far.
        """
        elapsed = now - self._since
        if elapsed >= _COUNTED:
            self._soon = int(self._seconds * (given - self._given_by_then) / elapsed)
            self._since, self._given_by_then = now, given
        return max(1, min(_MOST, max(self._soon, self._free())))
