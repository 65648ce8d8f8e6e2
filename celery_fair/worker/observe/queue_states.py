"""What state each queue is in at this worker, written into the event log when it changes.

ready       something is here
empty       nothing is
throttled   its own leash or cap holds it back
unassigned  it is not consumed any more

A queue that is empty here is *starved* while the broker has messages of it: the record's `depth`
says so. What the broker has is known about a second later than what is here, and what it had before
the queue ran out here says nothing: that may be what it ran out of. So the next answer is waited
for, and a record says since when its state lasts, which is before it is written; never before the
state that it ends began. If messages have come to the broker in between, the queue is starved from
then on.

A queue that has run out several times since the last look was empty from the first until the last
time that something came.
"""

from collections.abc import Mapping
from time import monotonic, time_ns
from typing import NamedTuple

from celery_fair.brokers.depths import Depth, Depths
from celery_fair.core.chooser import Chooser
from celery_fair.eventlog import EventLog
from celery_fair.worker.queues.feed import Feed
from celery_fair.worker.queues.open_feeds import OpenFeeds

_PATIENCE = 2.0
"""Seconds after which the broker's answer is waited for no more: what it has is not known then."""

_BRIEF = 0.1
"""Seconds for which something must have been here to be told: of a trickle no message is."""


class _Gap(NamedTuple):
    """Nothing was here since then; `until` is when something came again, None if that has not."""

    since: float
    until: float | None


class _Written(NamedTuple):
    """What the last record of a queue says."""

    state: str
    starved: bool
    quantum: float
    level: int
    since: float
    wall: int
    """The same, as it was written: microseconds of the clock."""


class QueueStates:
    """Of all queues of a worker.

    Arguments:
        feeds: the queues that are consumed.
        chooser: knows who is held back.
        depths: asks the broker what it has.
        log: takes the records.
        classes: those of queues with a target, in place of what their options say.
    """

    def __init__(
        self,
        feeds: OpenFeeds,
        chooser: Chooser,
        depths: Depths,
        log: EventLog,
        classes: Mapping[str, int] | None = None,
    ) -> None:
        self._feeds = feeds
        self._chooser = chooser
        self._log = log
        self._classes = classes or {}
        self._depths = depths
        self._written: dict[str, _Written] = {}
        self._gaps: dict[str, _Gap] = {}  # of which the broker's answer is waited for

    def quanta(self) -> dict[str, float]:
        """Return those of the queues that are consumed."""
        return {feed.name: feed.gate.options.quantum for feed in self._feeds}

    def start(self) -> None:
        """The worker is about to consume, on a new connection."""
        self._depths.start()

    def look(self) -> None:
        """Write down what has changed since the last look."""
        feeds = list(self._feeds)
        names = {feed.name for feed in feeds}
        self._depths.ask_about(names)
        for queue in (self._written.keys() | self._gaps.keys()) - names:
            self._unassigned(queue)
        now = monotonic()
        for feed in feeds:
            self._look_at(feed, self._depths.of(feed.name), now)

    def stop(self) -> None:
        """Nothing is consumed any more, until the next start: what has changed is told yet."""
        now = monotonic()
        for feed in self._feeds:
            self._look_at(feed, None, now)  # what the broker was said to have was before that
        for queue in list(self._written):
            self._unassigned(queue)

    def close(self) -> None:
        """Ask the broker no more."""
        self._depths.close()

    def _look_at(self, feed: Feed, depth: Depth | None, now: float) -> None:
        reason, _ = self._chooser.why(feed.flow, now)
        gap = self._gaps.pop(feed.name, None)
        if reason is not None:
            if gap is not None:
                self._tell(feed, gap, depth, now)
            feed.lull.began()
            self._say(feed, "throttled", now, depth, now)
            return
        if gap is not None and not self._tells(feed, gap, depth, now):
            return
        before = self._written.get(feed.name)
        gap = _gap_of(feed, before is not None and before.state == "empty", now)
        if gap is not None and not self._tells(feed, gap, depth, now):
            return
        before = self._written.get(feed.name)
        if feed.flow.head is not None:
            since = _since_ready(feed, before, now)
            if since == now or since <= now - _BRIEF:
                self._say(feed, "ready", since, depth, now)
        elif depth is None or before is None or before.since <= depth.at:
            self._say(feed, "empty", now if depth is None else depth.since, depth, now)

    def _tells(self, feed: Feed, gap: _Gap, depth: Depth | None, now: float) -> bool:
        """Write that the queue was empty, unless it is known to be; return whether it could be."""
        before = self._written.get(feed.name)
        if before is not None and before.state == "empty":
            if before.since < feed.lull.ended_at < gap.since - _BRIEF:
                self._say(feed, "ready", feed.lull.ended_at, depth, now)
            elif gap.until is None:
                return True  # it still is
        if depth is not None and depth.at < gap.since and now < gap.since + _PATIENCE:
            self._gaps[feed.name] = gap
            return False
        self._tell(feed, gap, depth, now)
        return True

    def _tell(self, feed: Feed, gap: _Gap, depth: Depth | None, now: float) -> None:
        self._say(feed, "empty", gap.since, _at(gap.since, depth), now)
        if gap.until is not None and gap.until <= now - _BRIEF:
            self._say(feed, "ready", gap.until, depth, now)

    def _say(self, feed: Feed, state: str, since: float, depth: Depth | None, now: float) -> None:
        """Write it down, unless the last record says so."""
        before, options = self._written.get(feed.name), feed.gate.options
        starved = state == "empty" and depth is not None and depth.messages > 0
        level = self._classes.get(feed.name, options.level)
        said = (state, starved, options.quantum, level)
        if before is not None and before[:4] == said:
            return
        if before is not None:
            since = now if before[:2] == said[:2] else max(since, before.since)
        wall = time_ns() // 1000 - int((now - since) * 1e6)
        if before is not None and since == before.since:  # in whose place it is
            wall = before.wall
        self._written[feed.name] = _Written(*said, since, wall)
        self._log.record(
            "queue",
            {
                "queue": feed.name,
                "state": state,
                "since": wall,
                "depth": None if depth is None else depth.messages,
                "quantum": options.quantum,
                "level": level,
            },
        )

    def _unassigned(self, queue: str) -> None:
        self._written.pop(queue, None)
        self._gaps.pop(queue, None)
        self._log.record("queue", {"queue": queue, "state": "unassigned"})


def _gap_of(feed: Feed, is_known: bool, now: float) -> _Gap | None:
    """Return since when nothing is, or was, here, if that has begun since the last look.

    Arguments:
        is_known: whether nothing was here then.
    """
    emptied = feed.lull.began()
    if feed.flow.head is None:
        since = now if emptied is None else emptied
        return None if emptied is None and is_known else _Gap(since, None)
    if emptied is None:
        return None
    return _Gap(emptied, feed.lull.ended_at if feed.lull.ended_at >= emptied else now)


def _since_ready(feed: Feed, before: _Written | None, now: float) -> float:
    """Return since when something is here: if that is not known, since now."""
    ended_at = feed.lull.ended_at
    if before is None:
        return ended_at or now
    return ended_at if before.state == "empty" and ended_at > before.since else now


def _at(moment: float, depth: Depth | None) -> Depth | None:
    """Return what the broker had at a moment; None if its answers before and after it differ."""
    if depth is None or not depth.messages:
        return depth
    return depth if depth.since <= moment <= depth.at else None
