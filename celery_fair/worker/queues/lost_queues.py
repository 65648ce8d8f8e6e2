"""Queues that the broker has taken away while they were consumed.

One that was deleted is declared and consumed again; its messages are gone. One whose channel the
broker has closed, because a message was unacknowledged for too long say, is consumed again on
another channel. One that the broker refuses, as another worker consumes it exclusively, the
permissions forbid it, a queue of its name is declared otherwise, or it is not there and to be
declared by others, is tried again until it does not. The other queues notice nothing of it.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from amqp import NotFound

from celery_fair.worker.queues.consumer import FairTaskConsumer
from celery_fair.worker.queues.feed import Feed

logger = logging.getLogger(__name__)

_AGAIN = 1.0
"""Seconds after which a queue is consumed again."""

_RETRY = 5.0
"""Seconds between two attempts to consume what was refused."""

_SHARED = (
    "Either another worker consumes it and one of the two does so exclusively: end that one, or let"
    " this one wait for it; or permissions forbid it; or others are to declare it (no_declare)"
)
_CLOSED = (
    "The broker has closed the channel of queue %s: %s. It delivers again what was not acknowledged"
    f"; the queue is consumed again in {_AGAIN:g} s, other queues are not affected."
)
_CLOSED_RETIRED = (
    "The broker has closed the channel on which queue %s, which is consumed no more, still had"
    " messages at this worker: %s. It delivers again what was not acknowledged, to whoever consumes"
    " the queue."
)
_DECLARED = (
    "It was deleted, and this is the answer to its declaration: declare it yourself, or give this"
    " user the permission to"
)


class LostQueues:
    """Told by feeds of what has become of their queues. One a connection.

    Arguments:
        c: Celery's consumer.
        queues: what is consumed.
        call_later: calls a function after so many seconds, on the thread that owns the channels.
        declared: told the name of each queue that was declared again.
    """

    def __init__(
        self,
        c: Any,
        queues: FairTaskConsumer,
        call_later: Callable[[float, Callable[[], object]], object],
        declared: Sequence[Callable[[str], object]] = (),
    ) -> None:
        self._c = c
        self._queues = queues
        self._call_later = call_later
        self._declared = tuple(declared)
        self._refused: set[str] = set()
        self._will_try = False

    # What feeds tell ----------------------------------------------------------------

    def refused(self, feed: Feed, answer: Exception) -> None:
        """The broker has closed the feed's channel with this answer."""
        self._queues.suspend(feed)
        feed.close()  # the channel: py-amqp has opened it anew
        if isinstance(answer, NotFound) and not feed.queue.no_declare:
            if feed.name not in self._refused:
                _say_deleted(feed)
            self._c.call_soon(self._declare, feed.queue)
        else:
            self._wait(feed.name, answer, _SHARED)

    def closed(self, feed: Feed, reason: Exception) -> None:
        """The broker has closed the feed's channel of its own accord, for this reason."""
        if isinstance(reason, NotFound) and not feed.retired:  # what was asked for, amid other work
            self.refused(feed, reason)
            return
        self._queues.suspend(feed)
        feed.close()
        logger.warning(_CLOSED_RETIRED if feed.retired else _CLOSED, feed.name, reason)
        if not feed.retired:
            self._call_later(_AGAIN, self._queues.consume)

    def lost(self, feed: Feed) -> None:
        """The broker has cancelled the feed's subscription: the queue was deleted."""
        _say_deleted(feed)
        self._c.call_soon(self._reopen, feed)

    def ended(self, feed: Feed) -> None:
        """Its channel is of no use any more; to whoever has settled the last message it may be."""
        self._c.call_soon(feed.close)

    def given_up(self, name: str) -> None:
        """Nobody wants this queue consumed any more."""
        self._refused.discard(name)

    # Declared again -----------------------------------------------------------------

    def _declare(self, queue: Any) -> None:
        if not self._is_wanted(queue.name):
            return
        try:
            self._queues.add_queue(queue)
        except self._c.channel_errors as exc:
            self._wait(queue.name, exc, _DECLARED)
        else:
            self._say_declared(queue.name)
            self._try_again()

    def _reopen(self, feed: Feed) -> None:
        queues = self._queues
        if queues.is_over or feed.dead or not queues.consuming_from(feed.name):
            return
        try:
            feed.reopen()
        except self._c.channel_errors as exc:
            queues.suspend(feed)
            feed.close()
            self._wait(feed.name, exc, _DECLARED)
        else:
            self._say_declared(feed.name)

    def _say_declared(self, queue: str) -> None:
        if not self._is_wanted(queue):
            return
        try:
            for told in self._declared:
                told(queue)
        except self._c.channel_errors as exc:
            logger.error(  # noqa: TRY400 - the broker's answer says it all
                "Queue %s is declared again, but an exchange in front of it cannot be; what is"
                " published there does not reach it. Trying again every %g s: %s",
                queue,
                _RETRY,
                exc,
            )
            self._call_later(_RETRY, partial(self._say_declared, queue))

    def _is_wanted(self, queue: str) -> bool:
        return not self._queues.is_over and queue in {each.name for each in self._queues.queues}

    # Tried again --------------------------------------------------------------------

    def _wait(self, queue: str, answer: Exception, advice: str) -> None:
        """The broker's answer to an attempt to consume a queue was no."""
        if queue not in self._refused:
            self._refused.add(queue)
            logger.error(
                "Cannot consume queue %s: %s. %s. Trying again every %g s; other queues are not"
                " affected.",
                queue,
                answer,
                advice,
                _RETRY,
            )
        if not self._will_try:
            self._will_try = True
            self._call_later(_RETRY, self._on_time)

    def _on_time(self) -> None:
        self._will_try = False
        self._try_again()

    def _try_again(self) -> None:
        """Consume what is not consumed yet."""
        for queue in self._refused & self._queues.try_again():
            self._refused.discard(queue)
            logger.warning("Queue %s is consumed now", queue)


def _say_deleted(feed: Feed) -> None:
    logger.warning("Queue %s was deleted at the broker; consuming it again", feed.name)
