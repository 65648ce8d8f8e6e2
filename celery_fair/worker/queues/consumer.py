"""What Celery expects of ``consumer.task_consumer`` and ``consumer.qos``, over many feeds."""

import logging
from collections.abc import Callable
from typing import Any

from kombu.common import QoS

from celery_fair.worker.queues.feed import Feed, Recovery
from celery_fair.worker.queues.open_feeds import OpenFeeds

logger = logging.getLogger(__name__)


class FairTaskConsumer:
    """A set of feeds in the shape of a `kombu.Consumer`.

    Arguments:
        channel: the connection's default channel.
        queues: the queues to start with, declared already.
        make_feed: makes a feed for a queue; what the broker takes away, it tells the `Recovery`.
        recovery: makes that, for these queues.
        open_feeds: has each feed that has started and not ended.
        levels_of: the physical queues of a logical one, or the queue itself.
        deselect: told the name of each queue that is not to be consumed any more.
        connection_errors: what ends the connection.

    Attributes:
        is_over: the connection is gone, or the worker stops: nothing is consumed any more.
    """

    def __init__(
        self,
        channel: Any,
        queues: list[Any],
        make_feed: Callable[[Any, Recovery], Feed],
        recovery: Callable[["FairTaskConsumer"], Recovery],
        open_feeds: OpenFeeds,
        levels_of: Callable[[Any], list[Any]] = lambda queue: [queue],
        deselect: Callable[[str], object] = lambda name: None,
        connection_errors: tuple[type[Exception], ...] = (),
    ) -> None:
        self.channel = channel
        self.on_message: Callable[[Any], object] | None = None
        self._queues = {queue.name: queue for queue in queues}
        self._feeds: dict[str, Feed] = {}
        self._retired: list[Feed] = []
        self._make_feed = make_feed
        self._recovery = recovery(self)
        self._open_feeds = open_feeds
        self.is_over = False
        self._levels_of = levels_of
        self._deselect = deselect
        self._connection_errors = connection_errors

    @property
    def queues(self) -> list[Any]:
        """The queues consumed from, as `kombu.Queue`."""
        return list(self._queues.values())

    @property
    def feeds(self) -> list[Feed]:
        """The open feeds."""
        return list(self._feeds.values())

    @property
    def retired(self) -> list[Feed]:
        """Feeds that have ended and still hold what runs, is put off, or could not go back."""
        self._retired = [feed for feed in self._retired if feed.unsettled and not feed.dead]
        return list(self._retired)

    def consuming_from(self, queue: Any) -> bool:
        """Whether a queue, by name or as `kombu.Queue`, is consumed from."""
        return all(_name(level) in self._feeds for level in self._levels_of(queue))

    def add_queue(self, queue: Any) -> Any:
        """Declare a queue; `consume` starts it."""
        for level in () if self.is_over else self._levels_of(queue):
            bound = level(self.channel)
            bound.declare()
            self._queues[bound.name] = bound
        return queue

    def consume(self, no_ack: bool | None = None) -> None:
        """Start the queues that are not consumed from yet."""
        for name, queue in () if self.is_over else self._queues.items():
            if name not in self._feeds:
                feed = self._feeds[name] = self._make_feed(queue, self._recovery)
                self._open_feeds.add(feed)
                feed.open()

    def renew(self, feed: Feed) -> None:
        """End a feed, giving back what it has, and make another of its queue."""
        try:
            self._end(feed)
        finally:  # what did not go back comes again some time, and the queue's other messages now
            self.consume()

    def try_again(self) -> set[str]:
        """Start those that were refused; return the names of all that are consumed then."""
        self.consume()
        return set(self._feeds)

    def cancel_by_queue(self, queue: Any) -> None:
        """Stop consuming from a queue; what is buffered of it goes back.

        If that fails, the queue is consumed no more all the same. Celery calls this from its event
        loop, where any other error than a lost connection would end the worker.

        Raises:
            Exception: the connection is lost.
        """
        names = [_name(level) for level in self._levels_of(queue)]
        for name in names:
            self._queues.pop(name, None)
            self._recovery.given_up(name)
            self._open_feeds.suspended.discard(name)
            self._deselect(name)
        try:
            self._end_all([self._feeds[name] for name in names if name in self._feeds])
        except self._connection_errors:
            raise
        except Exception as exc:  # noqa: BLE001 - whatever the broker answers, the worker goes on
            logger.warning(
                "Queue %s is consumed no more, but what waited of it could not all be given back:"
                " %r. The broker has it when the channel is closed; a non-repeatable task among it"
                " becomes a dead letter",
                _name(queue),
                exc,
            )

    def cancel(self) -> None:
        """Stop consuming; what is buffered goes back, what runs may still be acknowledged.

        Raises:
            Exception: of the first queue with which that failed; the others have ended, too.
        """
        self.is_over = True
        self._end_all([*self.feeds, *self.retired], lambda feed: feed.aside.give_back_once())

    close = cancel

    def _end_all(
        self, feeds: list[Feed], then: Callable[[Feed], object] = lambda feed: None
    ) -> None:
        errors = list[Exception]()
        for feed in feeds:
            try:
                self._end(feed, any(isinstance(exc, self._connection_errors) for exc in errors))
                then(feed)
            except Exception as exc:  # noqa: BLE001 - re-raised, when the others have had their turn
                errors.append(exc)
        if errors:
            raise errors[0]

    def _end(self, feed: Feed, is_lost: bool = False) -> None:
        try:
            if is_lost:  # and nobody answers
                raise ConnectionError("the connection is lost")  # noqa: TRY301
            feed.cancel()
            self._detach(feed)
            feed.hand_back()
            feed.retire()
            self._retired = [*(one for one in self.retired if one is not feed), feed]
        except Exception:  # whatever ended it: none of what it holds may start; re-raised
            self.suspend(feed)
            self._recovery.ended(feed)  # with its channel, the broker has back what it held
            raise

    def _detach(self, feed: Feed) -> bool:
        if self._feeds.get(feed.name) is not feed:  # but one that came after it
            return False
        del self._feeds[feed.name]
        self._open_feeds.remove(feed)
        return True

    def abandon(self) -> None:
        """The connection is gone, and with it every delivery."""
        self.is_over = True
        for feed in [*self.feeds, *self.retired]:
            self._queues.pop(feed.name, None)
            self._detach(feed)
            feed.die()

    def suspend(self, feed: Feed) -> None:
        """Forget a feed whose channel is gone, until `consume` is called again.

        The broker redelivers what was there.
        """
        if self._detach(feed) and feed.name in self._queues:
            self._open_feeds.suspended.add(feed.name)
        feed.die()


def _name(queue: Any) -> str:
    return str(getattr(queue, "name", queue))


class FairQoS(QoS):
    """Celery's prefetch count: raised for a message that is put off, and when the pool grows.

    Windows are ours, so that it stays as it is; `on_raise` is told instead.
    """

    def __init__(self, value: int, on_raise: Callable[[], object]) -> None:
        super().__init__(lambda prefetch_count: None, value)
        self.prev = value
        self._on_raise = on_raise

    def increment_eventually(self, n: int = 1) -> int:
        """Celery is about to put the offered message off, or the pool has grown."""
        self._on_raise()
        return int(self.value)

    def decrement_eventually(self, n: int = 1) -> int:
        """A message that was put off has come due; its request says so itself."""
        return int(self.value)
