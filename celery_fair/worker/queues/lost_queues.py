"""Queues that the broker has taken away while they were consumed.

One that was deleted is declared and consumed again; its messages are gone. One that the broker
refuses otherwise is left to `Refused`. The other queues notice nothing of either.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from amqp import NotFound

from celery_fair.worker.queues.feed import Feed
from celery_fair.worker.queues.refused import Refused

__all__ = ["Consumed", "LostQueues"]

logger = logging.getLogger(__name__)


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

    def drop(self, feed: Feed) -> None: ...

    def forget(self, name: str) -> None: ...


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
        self._refusals = Refused(call_later, queues.try_again)
        self._declared = tuple(declared)

    def refused(self, feed: Feed, answer: Exception) -> None:
        """The broker has closed the feed's channel with this answer."""
        self._queues.suspend(feed)
        feed.close()  # the channel: py-amqp has opened it anew
        if isinstance(answer, NotFound):
            _say_deleted(feed)
            self._c.call_soon(self._declare, feed.queue)
        else:
            self._refusals.add(feed.name, answer)

    def lost(self, feed: Feed) -> None:
        """The broker has cancelled the feed's subscription: the queue was deleted."""
        _say_deleted(feed)
        self._c.call_soon(self._reopen, feed)

    def _declare(self, queue: Any) -> None:
        queues = self._queues
        if not queues.is_over and queue.name in {q.name for q in queues.queues}:
            with self._undeclarable(queue.name, partial(queues.forget, queue.name)):
                queues.add_queue(queue)
                self._say_declared(queue.name)
                queues.consume()

    def _reopen(self, feed: Feed) -> None:
        queues = self._queues
        if not queues.is_over and queues.consuming_from(feed.name) and not feed.dead:
            with self._undeclarable(feed.name, partial(queues.drop, feed)):
                feed.reopen()
                self._say_declared(feed.name)

    def _say_declared(self, queue: str) -> None:
        for told in self._declared:
            told(queue)

    @contextmanager
    def _undeclarable(self, queue: str, give_up: Callable[[], object]) -> Iterator[None]:
        try:
            yield
        except self._c.channel_errors as exc:
            logger.error(  # noqa: TRY400 - the broker's answer says it all
                "Cannot declare queue %s again, consuming it no more: %s", queue, exc
            )
            give_up()


def _say_deleted(feed: Feed) -> None:
    logger.warning("Queue %s was deleted at the broker; declaring it again", feed.name)
