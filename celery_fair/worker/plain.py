"""The way of a message that py-amqp, kombu and Celery go; `express` has a shorter one."""

from collections.abc import Callable
from typing import Any

from celery_fair.worker.launch.in_flight import Way, plain_way
from celery_fair.worker.launch.requests import ShortWay
from celery_fair.worker.queues.sources import Read, read_plainly

__all__ = ["PlainWay"]


class PlainWay:
    """What the two ways do differently; one a process."""

    read: Read = staticmethod(read_plainly)

    def into(self, pool: Any, freed: Callable[[], object]) -> Way:
        """Return the way into a pool; `freed` is to be called when a request has ended."""
        return plain_way(pool, freed)

    def requests(self, c: Any) -> tuple[ShortWay, ...]:
        """Return what makes requests in Celery's place, on a new connection of its consumer."""
        return ()
