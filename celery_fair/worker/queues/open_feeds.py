"""The queues that are consumed now."""

from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

from celery_fair.core.chooser import Chooser
from celery_fair.core.dwrr import Flow
from celery_fair.worker.queues.feed import Feed


class NotConsumedError(LookupError):
    """This worker does not consume the queue."""


class OpenFeeds:
    """The feeds, by the flows that the chooser knows them by; it forgets those that are closed.

    Changed on the thread that owns the channels; others may iterate.

    Attributes:
        asked: those that give a message only when asked.
        suspended: names of queues that the broker has taken away, and that are tried again.
    """

    def __init__(self, chooser: Chooser, clock: Callable[[], float] = monotonic) -> None:
        self._chooser = chooser
        self._clock = clock
        self._feeds: dict[Flow, Feed] = {}
        self.asked: list[Any] = []  # of `Pulled`
        self.suspended: set[str] = set()

    def __iter__(self) -> Iterator[Feed]:
        return iter(list(self._feeds.values()))

    def __len__(self) -> int:
        return len(self._feeds)

    def __contains__(self, feed: Any) -> bool:
        return feed.flow in self._feeds

    def __getitem__(self, flow: Flow) -> Feed:
        return self._feeds[flow]

    def get(self, flow: Flow) -> Feed | None:
        """Return a flow's feed, unless it is closed."""
        return self._feeds.get(flow)

    def named(self, queue: str) -> Feed | None:
        """Return a queue's feed, if it is consumed."""
        return next((feed for feed in self if feed.name == queue), None)

    def must_have(self, queue: str) -> Feed | None:
        """Return a queue's feed; None if the broker has taken the queue away, for a while.

        Raises:
            NotConsumedError: the queue is not consumed by this worker.
        """
        names = {feed.name for feed in self} | self.suspended
        if queue not in names:
            raise NotConsumedError(
                f"queue {queue!r} is not consumed by this worker; these are: "
                + ", ".join(sorted(names))
            )
        return self.named(queue)

    def add(self, feed: Feed) -> None:
        """Serve this feed from now on."""
        self._feeds[feed.flow] = feed
        self.suspended.discard(feed.name)
        if feed.asks:
            self.asked.append(feed)

    def remove(self, feed: Feed) -> None:
        """Serve it no more."""
        del self._feeds[feed.flow]
        if feed.asks:
            self.asked.remove(feed)
        self._chooser.remove(feed.flow, self._clock())
