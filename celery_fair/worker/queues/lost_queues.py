"""Queues that the broker has taken away while they were consumed.

One that was deleted is declared and consumed again; its messages are gone. One whose channel the
broker has closed, because a message was unacknowledged for too long say, is consumed again on
another channel. One that the broker refuses, as another worker consumes it exclusively, the
permissions forbid it, or a queue of its name is declared otherwise, is tried again until it does
not. The other queues notice nothing of it.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from amqp import NotFound

from celery_fair.worker.queues.feed import Feed

__all__ = ["Consumed", "LostQueues"]

logger = logging.getLogger(__name__)

_AGAIN = 1.0
"""Seconds after which a queue is consumed again."""

_RETRY = 5.0
"""Seconds between two attempts to consume what was refused."""

_SHARED = (
    "Either another worker consumes it and one of the two does so exclusively: end that one, or let"
    " this one wait for it; or the broker's permissions forbid it"
)
_DECLARED = (
    "It was deleted, and this is the answer to its declaration: declare it yourself, or give this"
    " user the permission to"
)


class Consumed(Protocol):
    """What a connection consumes; see `celery_fair.worker.queues.consumer.FairTaskConsumer`."""

    @property
    def is_over(self) -> bool: ...

    @property
    def queues(self) -> list[Any]: ...

    def consuming_from(self, queue: Any) -> bool: ...

    def add_queue(self, queue: Any) -> Any: ...

    def consume(self) -> None: ...

    def try_again(self) -> set[str]: ...

    def suspend(self, feed: Feed) -> None: ...


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
        queues: "Consumed",
        call_later: Callable[[float, Callable[[], object]], object],
        declared: Sequence[Callable[[str], object]] = (),
    ) -> None:
        self._c = c
        self._queues = queues
        self._call_later = call_later
        self._refusals = _Refused(call_later, queues.try_again)
        self._declared = tuple(declared)

    def refused(self, feed: Feed, answer: Exception) -> None:
        """The broker has closed the feed's channel with this answer."""
        self._queues.suspend(feed)
        feed.close()  # the channel: py-amqp has opened it anew
        if isinstance(answer, NotFound):
            if feed.name not in self._refusals:
                _say_deleted(feed)
            self._c.call_soon(self._declare, feed.queue)
        else:
            self._refusals.add(feed.name, answer, _SHARED)

    def given_up(self, name: str) -> None:
        """Nobody wants this queue consumed any more."""
        self._refusals.discard(name)

    def closed(self, feed: Feed, reason: Exception) -> None:
        """The broker has closed the feed's channel of its own accord, for this reason."""
        if feed.retired:
            logger.warning(
                "The broker has closed the channel on which queue %s, which is consumed no more,"
                " still had messages at this worker: %s. It delivers again what was not"
                " acknowledged, to whoever consumes the queue.",
                feed.name,
                reason,
            )
            self._queues.suspend(feed)
            feed.close()
            return
        logger.warning(
            "The broker has closed the channel of queue %s: %s. It delivers again what was not"
            " acknowledged; the queue is consumed again in %g s, other queues are not affected.",
            feed.name,
            reason,
            _AGAIN,
        )
        self._queues.suspend(feed)
        feed.close()
        self._call_later(_AGAIN, self._consume)

    def _consume(self) -> None:
        if not self._queues.is_over:
            self._queues.consume()

    def lost(self, feed: Feed) -> None:
        """The broker has cancelled the feed's subscription: the queue was deleted."""
        _say_deleted(feed)
        self._c.call_soon(self._reopen, feed)

    def ended(self, feed: Feed) -> None:
        """Its channel is of no use any more; to whoever has settled the last message it may be."""
        self._c.call_soon(feed.close)

    def _declare(self, queue: Any) -> None:
        queues = self._queues
        if not queues.is_over and queue.name in {q.name for q in queues.queues}:
            try:
                queues.add_queue(queue)
            except self._c.channel_errors as exc:
                self._refusals.add(queue.name, exc, _DECLARED)
            else:
                self._say_declared(queue.name)
                self._refusals.try_again()

    def _reopen(self, feed: Feed) -> None:
        queues = self._queues
        if not queues.is_over and queues.consuming_from(feed.name) and not feed.dead:
            try:
                feed.reopen()
            except self._c.channel_errors as exc:
                queues.suspend(feed)
                feed.close()
                self._refusals.add(feed.name, exc, _DECLARED)
            else:
                self._say_declared(feed.name)

    def _say_declared(self, queue: str) -> None:
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
            self._call_later(_RETRY, partial(self._bind_again, queue))

    def _bind_again(self, queue: str) -> None:
        queues = self._queues
        if not queues.is_over and queue in {q.name for q in queues.queues}:
            self._say_declared(queue)


def _say_deleted(feed: Feed) -> None:
    logger.warning("Queue %s was deleted at the broker; declaring it again", feed.name)


class _Refused:
    """Remembers who was refused, and tries again every five seconds.

    Arguments:
        call_later: calls a function after so many seconds, from the thread that owns the channels.
        consume: starts the queues that are not consumed yet; returns the names of all that are.
    """

    def __init__(
        self,
        call_later: Callable[[float, Callable[[], object]], object],
        consume: Callable[[], set[str]],
    ) -> None:
        self._call_later = call_later
        self._consume = consume
        self._queues: set[str] = set()
        self._due = False

    def __contains__(self, queue: str) -> bool:
        return queue in self._queues

    def add(self, queue: str, answer: Exception, advice: str) -> None:
        """The broker's answer to an attempt to consume the queue was no."""
        if queue not in self._queues:
            self._queues.add(queue)
            logger.error(
                "Cannot consume queue %s: %s. %s. Trying again every %g s; other queues are not"
                " affected.",
                queue,
                answer,
                advice,
                _RETRY,
            )
        if not self._due:
            self._due = True
            self._call_later(_RETRY, self._retry)

    def discard(self, queue: str) -> None:
        """It need not be consumed any more."""
        self._queues.discard(queue)

    def _retry(self) -> None:
        self._due = False
        self.try_again()

    def try_again(self) -> None:
        """Consume what is not consumed yet."""
        for queue in self._queues & self._consume():
            self._queues.discard(queue)
            logger.warning("Queue %s is consumed now", queue)
