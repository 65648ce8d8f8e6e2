"""A Redis that keeps count of what keys run, where the messages are on another broker."""

from typing import Any

from celery_fair.brokers.keyed.lists import KeyedLists
from celery_fair.brokers.keyed.reports import Reports
from celery_fair.brokers.redis import Commands
from celery_fair.redis_client import client_at
from celery_fair.settings import KeyedQueue

__all__ = ["KeyStore"]


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
