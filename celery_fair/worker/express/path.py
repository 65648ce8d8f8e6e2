"""Where the fast path leaves the plain one."""

import logging
from collections.abc import Callable
from typing import Any

from amqp.transport import TCPTransport
from celery.concurrency import solo
from celery.concurrency import thread as threads

from celery_fair.worker.express.fast_requests import FastRequests
from celery_fair.worker.express.frames import BufferedReader, Frames
from celery_fair.worker.express.relay import Relay
from celery_fair.worker.launch.pool import PlainWay, Way
from celery_fair.worker.launch.requests import ShortWay
from celery_fair.worker.queues.amqp import RawDeliveries
from celery_fair.worker.wire.reader import DrainingReader

__all__ = ["FastPath"]

logger = logging.getLogger("celery.pool")


class FastPath(PlainWay):
    """Spares the usual message what need not be."""

    @staticmethod
    def read(broker: Any, hub: Any) -> tuple[RawDeliveries, Callable[[], object]]:
        """Have deliveries put together here; see `Read`."""
        frames = Frames(broker)
        if hub and type(broker.transport) is TCPTransport:
            return frames, BufferedReader(broker, hub, frames)
        return frames, DrainingReader(broker, hub)

    def into(self, pool: Any, freed: Callable[[], object]) -> Way:
        """Return a way into a pool; one in this process is spared what need not be."""
        kind: Any = type(pool)
        if kind is threads.TaskPool:
            relay = Relay(pool.executor, pool.limit, freed)
            return Way(relay.apply, relay.ended, relay.waits)
        if kind is solo.TaskPool and not logger.isEnabledFor(logging.DEBUG):
            return Way(pool.on_apply, freed, lambda: False)  # which ``apply_async`` would call
        return super().into(pool, freed)

    def requests(self, c: Any) -> tuple[ShortWay, ...]:
        return (FastRequests(c).request,)
