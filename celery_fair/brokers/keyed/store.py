"""A Redis that keeps count of what keys run and are served, where the messages are elsewhere."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from celery_fair.brokers.keyed.lists import KeyedLists
from celery_fair.brokers.keyed.scripts import base_of
from celery_fair.brokers.redis import Commands, Script, pairs_of, script_text
from celery_fair.redis_client import client_at
from celery_fair.settings import KeyedQueue

_EVERY, _EACH, _COST = 100, 5, 0.2
"""Milliseconds for which costs are added up, before they are read: at least, and for each report,
or each tenant in it, if these come to more.

So a server that has 200 workers answers 200 reports a second, as it does with 20."""

_LONGEST = 2000
"""Milliseconds for which they are at the most."""

_FORGOTTEN = 60
"""Seconds after which nobody is told any more."""

_NOTHING = 1e-9
"""What is left of a worker's own costs where they are taken out of a sum."""

_MOST = 20
"""Sums that are read at once: who was away for longer has missed some."""


class Reports:
    """Of one worker, about one queue.

    Arguments:
        send: sends commands to the server.
        queue: its name.

    Attributes:
        every: seconds until the next is due.
    """

    def __init__(self, send: Commands, queue: str) -> None:
        self._base = send.key(base_of(queue))
        self._report = Script(send, script_text("celery_fair.brokers.keyed", "report.lua"))
        self._number: int | None = None  # of the sum that goes on
        self._told: dict[str, float] | None = {}  # of what is in that; None: nobody knows
        self.every = _EVERY / 1000

    def exchange(self, served: Mapping[str, float]) -> dict[str, float]:
        """Tell what was served here since the last time, by tenant; return what was elsewhere.

        Costs that were known too late to be told with their messages may be below zero.

        Raises:
            redis.RedisError: it may have been told, or not.
        """
        told = [text for pair in served.items() for text in pair]
        last = "" if self._number is None else self._number - 1
        known, self._told = self._told, None  # should there be no answer
        args = [last, _EVERY, _EACH, _COST, _LONGEST, _FORGOTTEN, _MOST, *told]
        number, long, read, *sums = self._report([self._base], args)
        self.every = long / 1000
        found: defaultdict[str, float] = defaultdict(float)
        for each, costs in enumerate(sums, read + 1):
            own = known if each == self._number else {}
            if own is None:
                continue
            for tenant, cost in pairs_of(costs):
                found[tenant.decode()] += float(cost)
            for tenant, cost in own.items():
                found[tenant] -= cost
        if number != self._number and (self._number is not None or known is not None):
            known = {}
        self._number, self._told = number, known
        if self._told is not None:
            for tenant, cost in served.items():
                self._told[tenant] = self._told.get(tenant, 0.0) + cost
        return {tenant: cost for tenant, cost in found.items() if abs(cost) > _NOTHING}


class KeyStore:
    """As much of a channel of kombu's as `Commands` looks at, and of a connection as has one.

    Arguments:
        url: of the Redis.

    Raises:
        celery.exceptions.ImproperlyConfigured: no client can be made for the URL.
    """

    global_keyprefix = ""
    priority_steps = (0,)
    unacked_key, unacked_index_key = "unacked", "unacked_index"  # there are none

    def __init__(self, url: str) -> None:
        self._client = client_at(url, "fair_key_store, or else fair_leash_url")

    @property
    def default_channel(self) -> "KeyStore":
        """Itself."""
        return self

    def lists(self, keyed: KeyedQueue) -> KeyedLists:
        """Return what is kept of a queue."""
        return KeyedLists(self, Commands(self), keyed)

    def reports(self, queue: str) -> Reports:
        """Return what a worker tells, and is told, of what is served of a queue."""
        return Reports(Commands(self), queue)

    def close(self) -> None:
        """Disconnect what is not in use: other threads may just wait for an answer."""
        self._client.connection_pool.disconnect(inuse_connections=False)

    def _create_client(self) -> Any:
        return self._client

    def _q_for_pri(self, queue: str, step: int) -> str:
        return queue
