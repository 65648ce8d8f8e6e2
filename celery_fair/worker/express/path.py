"""Where the fast path leaves the plain one."""

import logging
from collections.abc import Callable
from typing import Any

import amqp
from amqp.transport import TCPTransport
from celery.concurrency import solo
from celery.concurrency import thread as threads

from celery_fair.worker.express.buffered import BufferedReader
from celery_fair.worker.express.fast_requests import FastRequests
from celery_fair.worker.express.frames import Frames
from celery_fair.worker.express.relay import Relay
from celery_fair.worker.launch.in_flight import Way, plain_way
from celery_fair.worker.launch.requests import ShortWay
from celery_fair.worker.plain import PlainWay
from celery_fair.worker.queues.amqp import RawDeliveries
from celery_fair.worker.wire.reader import DrainingReader

__all__ = ["FastPath", "short_way"]

logger = logging.getLogger("celery.pool")


class FastPath(PlainWay):
    """Spares the usual message what need not be."""

    @staticmethod
    def read(broker: Any, hub: Any) -> tuple[RawDeliveries | None, Callable[[], object]]:
        """Have deliveries put together here, if the library is py-amqp; see `Read`."""
        frames = Frames(broker) if isinstance(broker, amqp.Connection) else None
        if hub and frames is not None and type(broker.transport) is TCPTransport:
            return frames, BufferedReader(broker, hub, frames)
        return frames, DrainingReader(broker, hub)

    def into(self, pool: Any, freed: Callable[[], object]) -> Way:
        return short_way(pool, freed)

    def requests(self, c: Any) -> tuple[ShortWay, ...]:
        return (FastRequests(c).request,)


def short_way(pool: Any, freed: Callable[[], object]) -> Way:
    """Return a way into a pool; one in this process is spared what need not be.

    Arguments:
        freed: what is to be called when a request has ended.
    """
    kind: Any = type(pool)
    if kind is threads.TaskPool:
        relay = Relay(pool.executor, pool.limit, freed)
        return Way(relay.apply, relay.ended, relay.waits)
    if kind is solo.TaskPool and not logger.isEnabledFor(logging.DEBUG):
        return Way(pool.on_apply, freed, lambda: False)  # which ``apply_async`` would call
    return plain_way(pool, freed)
