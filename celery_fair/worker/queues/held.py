"""Messages that have waited here for too long are given back to their queue.

A queue that is paused, leashed, capped or starved by a higher class keeps its window full of what
does not start, while the broker's patience runs out: RabbitMQ closes a channel on which a message
was unacknowledged for half an hour, Redis's visibility timeout gives it to another worker. Such a
queue gives back what it has, and is asked for each message from then on (see
`celery_fair.worker.queues.pulled`), so that nothing waits here. When it flows again, messages are
pushed again. One that must stay subscribed to gets them back at once, as new deliveries. What
Celery has put off for its ETA goes back, too, and comes again.

A feed that has ended may still hold what the broker has not taken back, or what is put off. That is
tried again until it is gone; it would start nowhere before the connection ends, and then count as
redelivered.
"""

import logging
import math
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from celery_fair.worker.queues.consumer import FairTaskConsumer
from celery_fair.worker.queues.delivery import message_of
from celery_fair.worker.queues.feed import Feed

logger = logging.getLogger(__name__)

LONGEST_WAIT = 600.0
"""Seconds for which a message may wait here.

A third of the time that RabbitMQ has by default, so that a task that is acknowledged late has the
rest of it to run; and long enough for what is held back for a moment to stay in its place.
"""

_LOOKS = 4
"""How often it is looked for what waits, in the time that it may."""

_SOON = 5.0
"""Seconds until what the broker has not taken back is tried again, at the most."""

_FLOWS = 10
"""So many messages between two looks are a flow."""


def longest_wait(channel: Any, queues: Iterable[Any]) -> float:
    """Return the seconds for which a message may wait here: half of what the broker is known for.

    Arguments:
        channel: of the connection; Redis's and SQS's know their visibility timeout.
        queues: that are consumed; RabbitMQ's may be declared with a time of their own.
    """
    visible: float = getattr(channel, "visibility_timeout", math.inf)
    own: list[float] = [
        (queue.queue_arguments or {}).get("x-consumer-timeout", math.inf) for queue in queues
    ]
    return min(LONGEST_WAIT, visible / 2, *(milliseconds / 1000 / 2 for milliseconds in own))


class Held:
    """Looks after the feeds of one connection.

    Arguments:
        queues: what is consumed.
        limit: seconds for which a message may wait here.
        call_later: calls a function after so many seconds, on the thread that owns the channels.
        forget: has Celery forget what it has put off of these messages.
        connection_errors: what ends the connection.
        clock: the monotonic clock.

    Attributes:
        asked: the names of the queues that are asked for each message.
    """

    def __init__(
        self,
        queues: FairTaskConsumer,
        limit: float,
        call_later: Callable[[float, Callable[[], object]], object],
        forget: Callable[[Iterable[Any]], object],
        connection_errors: tuple[type[Exception], ...],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._queues = queues
        self._limit = limit
        self._call_later = call_later
        self._forget = forget
        self._connection_errors = connection_errors
        self._clock = clock
        self._given: dict[str, int] = {}  # messages that a feed had given at the last look
        self.asked: set[str] = set()
        call_later(limit / _LOOKS, self._look)

    def _look(self) -> None:
        queues = self._queues
        for feed in [*queues.feeds, *queues.retired]:
            if not queues.is_over and not feed.dead:
                self._look_at(feed)
        if not queues.is_over:
            wait = self._limit / _LOOKS
            left = any(map(is_leftover, queues.retired))
            self._call_later(min(wait, _SOON) if left else wait, self._look)

    def _look_at(self, feed: Feed) -> None:
        before = self._clock() - self._limit
        try:
            self._forget(feed.aside.give_back(before))
            waits = any(message_of(each).arrived < before for each in feed.buffer)
            # Of one that is asked, after its ETA, or behind its key.
            if is_leftover(feed) or (waits and (feed.asks or not feed.may_be_asked)):
                feed.hand_back()
            elif waits:
                self._ask(feed)
            elif feed.name in self.asked:
                self._push_if_it_flows(feed)
        except self._connection_errors:
            raise
        except Exception:  # it is tried again at the next look
            logger.exception("Queue %s: what has waited for too long is not given back", feed.name)

    def _ask(self, feed: Feed) -> None:
        logger.info(
            "Queue %s: a message has waited here for more than %g s. What waits goes back to the"
            " queue, which is asked for each message from now on",
            feed.name,
            self._limit,
        )
        self.asked.add(feed.name)
        self._given[feed.name] = 0
        self._queues.renew(feed)

    def _push_if_it_flows(self, feed: Feed) -> None:
        given, self._given[feed.name] = self._given[feed.name], feed.given
        if feed.given - given >= _FLOWS:
            logger.info("Queue %s flows again: its messages are pushed again", feed.name)
            self.asked.discard(feed.name)
            self._queues.renew(feed)


def is_leftover(feed: Feed) -> bool:
    """Whether it has ended, and the broker has not taken back all that is to go back."""
    return feed.retired and bool(feed.buffer or (feed.gate.fenced and feed.aside))
