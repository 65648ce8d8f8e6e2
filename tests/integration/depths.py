"""What the broker still has of some queues."""

from __future__ import annotations

from tests.brokers import Space

REDIS_HASH = "unacked"
"""Where kombu keeps what is unacknowledged of all queues."""


def ready(space: Space, *queues: str) -> int:
    """Messages that wait in these queues."""
    depths = space.depths()
    return sum(depths[queue].ready for queue in queues if queue in depths)


def unsettled(space: Space, *queues: str) -> int:
    """Messages delivered and not acknowledged; on Redis, of all queues together."""
    depths = space.depths()
    return sum(depths[name].unacked for name in (*queues, REDIS_HASH) if name in depths)


def left(space: Space, *queues: str) -> int:
    """Messages that are not gone for good: waiting or unsettled."""
    return ready(space, *queues) + unsettled(space, *queues)
