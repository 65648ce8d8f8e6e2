"""What state each queue is in at this worker, written into the event log when it changes.

ready       something is here
empty       nothing is, or nothing was at some moment since the last look
throttled   its own leash or cap holds it back
unassigned  it is not consumed any more

A queue that is empty here is *starved* while the broker has messages of it: the record's `depth`
says so. What the broker has is known about a second later than what is here, and what it had before
the queue ran out here says nothing: that may be what it ran out of. So the next answer is waited
for, and a record says since when its state lasts, which is before it is written; never before the
state that it ends began. If messages have come to the broker in between, the queue is starved from
then on.
"""

from time import monotonic, time_ns
from typing import NamedTuple

from celery_fair.brokers.depths import Depth, Depths
from celery_fair.core.chooser import Chooser
from celery_fair.eventlog import EventLog
from celery_fair.settings import QueueOptions
from celery_fair.worker.queues.feed import Feed
from celery_fair.worker.queues.open_feeds import OpenFeeds

__all__ = ["QueueStates"]


_PATIENCE = 2.0
"""Seconds after which the broker's answer is waited for no more: what it has is not known then."""


class _Written(NamedTuple):
    """What the last record of a queue says."""

    state: str
    starved: bool
    quantum: float
    level: int
    since: float


class QueueStates:
    """Of all queues of a worker.

    Arguments:
        feeds: the queues that are consumed.
        chooser: knows who is held back.
        depths: asks the broker what it has.
        log: takes the records.
    """

    def __init__(self, feeds: OpenFeeds, chooser: Chooser, depths: Depths, log: EventLog) -> None:
        self._feeds = feeds
        self._chooser = chooser
        self._log = log
        self._depths = depths
        self._written: dict[str, _Written] = {}
        self._emptied: dict[str, float] = {}  # when, of queues of which the broker is to answer yet
        self._options: dict[str, QueueOptions] = {}

    @property
    def options(self) -> dict[str, QueueOptions]:
        """Of the queues that are consumed; if none is any more, of those that were last."""
        options = {feed.name: feed.gate.options for feed in self._feeds}
        self._options = options or self._options
        return self._options

    def start(self) -> None:
        """The worker is about to consume, on a new connection."""
        self._depths.start()

    def look(self) -> None:
        """Write down what has changed since the last look."""
        feeds = list(self._feeds)
        names = {feed.name for feed in feeds}
        self._depths.ask_about(names)
        for queue in self._written.keys() - names:
            self._unassigned(queue)
        now = monotonic()
        for feed in feeds:
            self._look_at(feed, self._depths.of(feed.name), now)

    def stop(self) -> None:
        """Nothing is consumed any more, until the next start: what has changed is told yet."""
        self._options = self.options
        now = monotonic()
        for feed in self._feeds:
            self._look_at(feed, None, now)  # what the broker was said to have was before that
        for queue in list(self._written):
            self._unassigned(queue)

    def close(self) -> None:
        """Ask the broker no more."""
        self._depths.close()

    def _look_at(self, feed: Feed, depth: Depth | None, now: float) -> None:
        before, emptied = self._written.get(feed.name), feed.was_empty()
        emptied = self._emptied.pop(feed.name, emptied)
        state = self._state(feed, emptied, now)
        since = now
        if before is not None and before.state == state == "empty":
            since = now if depth is None else depth.since
        elif state == "empty":
            since = now if emptied is None else emptied
            if depth is not None and depth.at < since and now < since + _PATIENCE:
                self._emptied[feed.name] = since
                return
            depth = _at(since, depth)
        elif state == "ready" and (before is None or before.state == "empty"):
            since = feed.filled or now
        starved = state == "empty" and depth is not None and depth.messages > 0
        options = feed.gate.options
        if before is None or before[:-1] != (state, starved, options.quantum, options.level):
            if before is not None:
                since = max(since, before.since)
            written = _Written(state, starved, options.quantum, options.level, since)
            self._write(feed.name, written, depth, now)

    def _state(self, feed: Feed, emptied: float | None, now: float) -> str:
        reason, _ = self._chooser.why(feed.flow, now)
        if reason is not None:
            return "throttled"
        return "ready" if feed.flow.head is not None and emptied is None else "empty"

    def _write(self, queue: str, written: _Written, depth: Depth | None, now: float) -> None:
        self._written[queue] = written
        self._log.record(
            "queue",
            {
                "queue": queue,
                "state": written.state,
                "since": time_ns() // 1000 - int((now - written.since) * 1e6),
                "depth": None if depth is None else depth.messages,
                "quantum": written.quantum,
                "level": written.level,
            },
        )

    def _unassigned(self, queue: str) -> None:
        del self._written[queue]
        self._emptied.pop(queue, None)
        self._log.record("queue", {"queue": queue, "state": "unassigned"})


def _at(moment: float, depth: Depth | None) -> Depth | None:
    """Return what the broker had at a moment; None if its answers before and after it differ."""
    if depth is None or not depth.messages:
        return depth
    return depth if depth.since <= moment <= depth.at else None
