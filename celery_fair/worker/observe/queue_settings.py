"""What each queue's messages are charged and what it is shared by, written into the event log.

A record is written when a worker begins to consume a queue, when something has changed since, and
again each hour: of a log the oldest files are deleted, and the one that said so may be among them.
"""

from collections.abc import Mapping
from time import monotonic
from typing import Any, NamedTuple

from celery_fair.eventlog import EventLog
from celery_fair.settings import KeyedQueue, QueueOptions, Settings
from celery_fair.worker.observe.records import costs_of
from celery_fair.worker.queues.feed import Feed
from celery_fair.worker.queues.open_feeds import OpenFeeds

_AGAIN = 3600.0
"""Seconds after which what has not changed is written again."""

_Live = Mapping[str, float]


class _Written(NamedTuple):
    """What the last record of a queue says, and when it was written."""

    options: QueueOptions
    live: _Live
    ahead: int | None  # windows adapt all the time; this is the one with which these began
    at: float


class QueueSettings:
    """Of all queues of a worker.

    Arguments:
        feeds: the queues that are consumed.
        settings: of the app.
        log: takes the records.
    """

    def __init__(self, feeds: OpenFeeds, settings: Settings, log: EventLog) -> None:
        self._feeds = feeds
        self._settings = settings
        self._log = log
        self._written: dict[str, _Written] = {}

    def look(self) -> None:
        """Write down what has changed since the last look."""
        now = monotonic()
        for feed in self._feeds:
            options = feed.gate.options
            live = {} if feed.by_key is None else feed.by_key.live_weights()
            before = self._written.get(feed.name)
            same = before is not None and before[:2] == (options, live)
            if before is None or not same or now >= before.at + _AGAIN:
                ahead = before.ahead if before is not None and same else _ahead(feed)
                written = self._written[feed.name] = _Written(options, dict(live), ahead, now)
                self._log.record("settings", self._of(feed.name, written))

    def _of(self, queue: str, written: _Written) -> dict[str, Any]:
        settings, options = self._settings, written.options
        leashed = options.rate is not None
        keyed = settings.keys.get(queue)
        return {
            "queue": queue,
            "costs": costs_of(settings),
            "policy": settings.policy,
            "max_wait": settings.max_wait,
            "quantum": options.quantum,
            "level": options.level,
            "target": None if options.target is None else str(options.target),
            "importance": options.importance or None,
            "rate": options.rate,
            "burst": options.burst if leashed else None,
            "scope": options.scope if leashed else None,
            "cap": options.max_in_flight,
            "fetch": options.fetch,
            "ahead": written.ahead,
            **({} if keyed is None else _by_key(keyed, written.live)),
        }


def _ahead(feed: Feed) -> int | None:
    """Return how many messages the broker may send before slots are free, if it does so."""
    return feed.room.wanted if feed.pushes else None


def _by_key(keyed: KeyedQueue, live: _Live) -> dict[str, Any]:
    own = keyed.own_limits
    return {
        "key_weight": keyed.weight,
        "key_weights": {**keyed.weights, **live},
        "key_cap": keyed.max_in_flight,
        "key_caps": {key: float(limits.max_in_flight or 0) for key, limits in own.items()},
        "key_rate": keyed.rate,
        "key_rates": {key: limits.rate or 0.0 for key, limits in own.items()},
        "key_burst": None if keyed.rate is None else keyed.burst,
        "key_bursts": {key: float(limits.burst) for key, limits in own.items()},
    }
