"""What a worker can be asked while it runs."""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from celery_fair.core.chooser import Chooser
from celery_fair.headers import PUBLISHED, time_of
from celery_fair.settings import Settings
from celery_fair.worker.dispatch.prices import Served
from celery_fair.worker.launch.in_flight import Slots
from celery_fair.worker.observe.targets import Looked, TargetWatch
from celery_fair.worker.queues.delivery import message_of
from celery_fair.worker.queues.feed import Feed
from celery_fair.worker.queues.open_feeds import NotConsumedError, OpenFeeds

_TEXTS = {
    "paused": "paused by an operator; `fair resume {queue}` ends it",
    "cap": "its cap is reached: {in_flight} in flight of at most {cap} on this worker",
    "leash": "its leash has no token: {rate:g}/s, the next in {wait:.2f} s",
    "no_message": "no message is here{owed}",
    "keys": "{withheld} messages wait, of keys that may start none now; see `fair keys list"
    " {queue}`",
    "urgent": "what is urgent for its target goes first: {urgent}",
    "class": "higher classes go first: {urgent}; it is in class {level}",
    "no_credit": "its credit is used up: {credit:.3g} of a quantum of {quantum:g}. Its turn is"
    " {rounds} round(s) ahead, after the others'",
    "no_slot": "{turn}: its credit is {credit:.3g} of a quantum of {quantum:g}. It waits for a free"
    " slot, {busy} of {slots} are busy",
    "starting": "nothing holds it back: its next message starts now",
    "suspended": "the broker has taken it away, see the worker's log; it is tried again",
}


class Answers:
    """Answers for one worker, on the thread that owns the channels.

    Arguments:
        slots: of the pool, and what occupies them.
        app: the app's name, so that others on the same broker know that it is not theirs.
        targets: watches targets, if queues have any.
    """

    def __init__(
        self,
        settings: Settings,
        feeds: OpenFeeds,
        chooser: Chooser,
        slots: Slots,
        served: Served,
        app: str = "",
        targets: Collection[TargetWatch] = (),
    ) -> None:
        self._settings = settings
        self.feeds = feeds
        self._chooser = chooser
        self.slots, self.in_flight = slots, slots.in_flight
        self.served = served
        self._app = app
        self._targets = targets

    def status(self) -> dict[str, Any]:
        """Every queue's figures, by name. Shares are of the last ten seconds."""
        now = monotonic()
        shares, speeds = self.shares(now), self.served.per_second(now)
        targets = self.targets(now)
        rows = {}
        for feed in self.feeds:
            row = rows[feed.name] = self._row(feed, now)
            row["aim"] = None if targets is None else targets.told(feed.name)
            row["per_second"], row["cost_per_second"] = speeds.get(feed.name, (0.0, 0.0))
            row["target_share"], row["share"] = shares.get(feed.name, (0.0, 0.0))
        return rows

    def shares(self, now: float) -> dict[str, tuple[float, float]]:
        """Every queue's target and achieved share of the last ten seconds. From any thread."""
        recent = {name: cost for name, (_, cost) in self.served.per_second(now).items()}
        feeds = list(self.feeds)
        active = {feed for feed in feeds if recent.get(feed.name) or feed.buffer}
        quanta = sum(feed.gate.options.quantum for feed in active) or 1.0
        served = sum(recent.values()) or 1.0
        return {
            feed.name: (
                feed.gate.options.quantum / quanta if feed in active else 0.0,
                recent.get(feed.name, 0.0) / served,
            )
            for feed in feeds
        }

    def targets(self, now: float) -> Looked | None:
        """What targets are like now, if there are any. From any thread."""
        return next((each.look(now) for each in self._targets), None)

    def explain(self, queue: str) -> dict[str, Any]:
        """Why nothing of the queue starts now: a code and a sentence.

        Raises:
            NotConsumedError: the queue is not consumed by this worker.
        """
        feed, now = self.feeds.must_have(queue), monotonic()
        if feed is None:
            return {"queue": queue, "reason": "suspended", "text": _TEXTS["suspended"]}
        reason, until = self._chooser.why(feed.flow, now)
        busy, slots = len(self.in_flight), self.slots.count()
        rounds, before = self._chooser.ahead(feed.flow)
        level, above = self._chooser.above(feed.flow, now)
        if reason is None:
            outranked = "" if not above else "urgent" if self._targets else "class"
            reason = _why_waiting(feed, rounds, busy >= slots, outranked)
        options = feed.gate.options
        text = _TEXTS[reason].format(
            queue=queue,
            in_flight=self.in_flight.of(queue),
            cap=options.max_in_flight,
            rate=options.rate or 0.0,
            wait=max(0.0, until - now),
            withheld=feed.withheld,
            owed=", a refill is on its way" if feed.owed else "",
            rounds=rounds,
            busy=busy,
            slots=slots,
            turn=f"it comes after {before} of the others" if before else "its turn is next",
            credit=feed.flow.deficit,
            quantum=feed.flow.quantum,
            level=level,
            urgent=_some(above),
        )
        targets = self.targets(now)
        if targets is not None:
            text += targets.sentence(queue)
        return {"queue": queue, "reason": reason, "text": text}

    def keys(self, queue: str, tenant: str | None) -> dict[str, Any]:
        """What this worker knows of the keys of a queue whose broker does not know them.

        Arguments:
            tenant: of this one; None: of those that have most.

        Raises:
            NotConsumedError: there is nothing that it knows.
        """
        feed = self.feeds.must_have(queue)
        seen = None if feed is None or feed.by_key is None else feed.by_key.seen(tenant)
        if seen is None:
            raise NotConsumedError(f"this worker keeps no tags of the keys of {queue!r}")
        turns = [r.message.turn for r in self.in_flight if r.message.feed.name == queue]
        running = Counter(turn.tenant for turn in turns if turn is not None)
        return {**seen, "running": dict(running)}

    def _row(self, feed: Feed, now: float) -> dict[str, Any]:
        options = feed.gate.options
        reason, until = self._chooser.why(feed.flow, now)
        return {
            "app": self._app,
            "quantum": feed.gate.options.quantum,
            "by_key": feed.name in self._settings.keys,
            "class": options.level,
            "credit": feed.flow.deficit,
            "window": feed.window.size,
            "buffered": len(feed.buffer),
            "in_flight": self.in_flight.of(feed.name),
            "served": self.served.count.get(feed.name, 0),
            "waiting_seconds": now - message_of(feed.buffer[0]).arrived if feed.buffer else 0.0,
            "oldest_published": _oldest(feed),
            "held": reason,
            "throttled_seconds": until - now if reason == "leash" and until < math.inf else 0.0,
            "rate": options.rate,
            "burst": options.burst if options.rate is not None else None,
            "max_in_flight": options.max_in_flight,
        }


def _some(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _oldest(feed: Feed) -> float | None:
    """When the oldest message here was published, if its publisher says so; Unix time."""
    with suppress(Exception):  # none is here, or anything is in it, which is not decoded yet
        return time_of(message_of(feed.buffer[0]).headers.get(PUBLISHED))
    return None


def _why_waiting(feed: Feed, rounds: int, full: bool, outranked: str) -> str:
    if feed.asks and full:  # nobody asks then, and so nobody knows
        return "no_slot"
    if feed.next_cost(lambda _: 0.0) is None:
        return "keys" if feed.withheld else "no_message"
    if outranked:
        return outranked
    if rounds > 0:
        return "no_credit"
    return "no_slot" if full else "starting"
