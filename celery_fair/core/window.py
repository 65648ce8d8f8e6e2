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

from celery_fair.core.parking import Parking

LEAST = 2
"""The least window: with one, every single message would fill it and count as a backlog."""

SECONDS_OF_WORK = 1.0
"""What all windows of a worker are together at the most, as time at its present rate."""

_HEADROOM = 2.0
_LONGEST_DELAY = 0.5
_PATIENCE = (0.02, 0.25)

_GROW, _SHRINK = 1.25, 4
"""How many times too small or too large a window must be to be changed: a change has a price."""

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


class Room:
    """How many messages of a queue may be unsettled: its window, and what is put off besides.

    What is put off, for an ETA say, stays unsettled for long. So that it does not block the rest,
    the window grows by it, as far as the worker has room; and by a power of two at a time, so that
    it need not be changed for each message.

    Arguments:
        wanted: the window, as it is planned.
        late: returns what late acknowledgements keep unsettled besides, at the most.
        parking: of all queues of the worker.

    Attributes:
        wanted: as above.
        parked: messages that are put off, or stranded.
        limited: messages that are held back for a rate limit; the window does not grow by them.
    """

    def __init__(self, wanted: int, late: Callable[[], int], parking: Parking) -> None:
        self.wanted = wanted
        self.parked = self.limited = 0
        self._late = late
        self._parking = parking
        self._counted = 0  # of what is parked takes a place in the window, as the broker counts

    @property
    def has_any(self) -> bool:
        """Whether one more may be put off."""
        return self.parked < self._most

    @property
    def _ordinary(self) -> int:
        """Unsettled deliveries allowed if none is put off."""
        return self.wanted + self._late()

    @property
    def _most(self) -> float:
        """Unsettled deliveries that there is room for at this worker."""
        return self._parking.places(self.parked, self._ordinary)

    def want(self, window: int) -> None:
        """Plan another window."""
        self.wanted = window

    def suits(self, window: int) -> bool:
        """Whether the window is about as large as this."""
        return self.wanted * _GROW >= window and self.wanted < window * _SHRINK

    def park(self, counted: bool) -> None:
        """One more is put off, and takes a place in the window, as the broker counts, or not."""
        self.parked += 1
        self._counted += counted
        self._parking.enter()

    def unpark(self, counted: bool) -> None:
        """It is put off no more."""
        self.parked -= 1
        self._counted -= counted
        self._parking.leave()

    def limit(self, more: int) -> None:
        """So many more, or less, are held back for a rate limit."""
        self.limited += more

    def renew(self) -> None:
        """The window begins anew: nothing that was parked before takes a place in it."""
        self._counted = 0

    def close(self) -> None:
        """All that was put off is gone, and nothing of it is heard of again."""
        if self.parked:
            self._parking.leave(self.parked)

    def beside_parked(self, buffered: int = 0) -> int:
        """Return how many unsettled deliveries are allowed besides what is put off.

        Arguments:
            buffered: messages that wait here, may have to be put off, too, and come on top of a
                window that begins anew.
        """
        ahead = 1 << (self.parked - 1).bit_length() if self.parked else 0
        rest = max(self._ordinary - self.parked, self._parking.room - buffered)
        return int(min(self._ordinary + ahead, self._most - self.parked, rest))

    @property
    def prefetch(self) -> int:
        """Unsettled deliveries allowed, in all."""
        return self.beside_parked() + self.parked

    def misfits(self, size: int, buffered: int, may_shrink: bool) -> bool:
        """Whether a window of a size lacks room for what is put off, or has far too much by now."""
        places, wanted = size - self._counted, self.beside_parked(buffered)
        too_large = may_shrink and 0 < _SHRINK * wanted <= places
        return places < min(wanted, self._ordinary) or too_large

    def free(self, buffered: int) -> int:
        """Return how many more messages may be taken by a worker that takes them itself.

        What runs has left the window, as have ETAs; what a rate limit holds back has not.
        """
        return int(min(self.wanted, self._most - self.parked)) - buffered - self.limited


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
