"""Queues that the broker has taken away while they were consumed.

One that was deleted is declared and consumed again; its messages are gone. One that the broker
refuses otherwise is left to `Refused`. The other queues notice nothing of either.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from amqp import NotFound

from celery_fair.worker.consumer import FairTaskConsumer
from celery_fair.worker.feed import Feed
from celery_fair.worker.refused import Refused

__all__ = ["LostQueues"]

logger = logging.getLogger(__name__)


class LostQueues:
    """Told by feeds of what has become of their queues.

    Attributes:
        on_declared: told the name of a queue that was declared again.

    Arguments:
        c: Celery's consumer.
        consumer: returns the present connection's, if there is one.
        refused: tries those again that the broker refuses.
    """

    def __init__(
        self, c: Any, consumer: Callable[[], FairTaskConsumer | None], refused: Refused
    ) -> None:
        self._c = c
        self._consumer = consumer
        self._refusals = refused
        self.on_declared: Callable[[str], object] = lambda name: None

    def refused(self, feed: Feed, answer: Exception) -> None:
        """The broker has closed the feed's channel with this answer."""
        consumer = self._consumer()
        if consumer is not None:
            consumer.suspend(feed)
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
        consumer = self._consumer()
        if consumer is not None and queue.name in {q.name for q in consumer.queues}:
            with self._undeclarable(queue.name, partial(consumer.forget, queue.name)):
                consumer.add_queue(queue)
                self.on_declared(queue.name)
                consumer.consume()

    def _reopen(self, feed: Feed) -> None:
        consumer = self._consumer()
        if consumer is not None and consumer.consuming_from(feed.name) and not feed.dead:
            with self._undeclarable(feed.name, partial(consumer.drop, feed)):
                feed.reopen()
                self.on_declared(feed.name)

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
