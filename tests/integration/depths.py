"""What the broker still has of some queues."""

from __future__ import annotations

from collections.abc import Mapping

from tests.brokers import Space
from tests.brokers.space import Depth

REDIS_HASH = "unacked"
"""Where kombu keeps what is unacknowledged of all queues."""


def ready(space: Space, *queues: str) -> int:
    """Messages that wait in these queues."""
    return _ready(space.depths(), queues)


def unsettled(space: Space, *queues: str) -> int:
    """Messages delivered and not acknowledged; on Redis, of all queues together."""
    return _unsettled(space.depths(), queues)


def left(space: Space, *queues: str) -> int:
    """Messages that are not gone for good: waiting or unsettled, in one look.

    In two looks a message that is returned to its queue in between would be seen in neither.
    """
    depths = space.depths()
    return _ready(depths, queues) + _unsettled(depths, queues)


def is_of(name: str, queue: str) -> bool:
    """Whether this is the queue itself, or a list or a lane of one of its keys."""
    return name == queue or name.startswith((f"celery-fair:keys:{queue}:lane:", f"{queue}.fair."))


def _ready(depths: Mapping[str, Depth], queues: tuple[str, ...]) -> int:
    return sum(depths[name].ready for name in depths if any(is_of(name, q) for q in queues))


def _unsettled(depths: Mapping[str, Depth], queues: tuple[str, ...]) -> int:
    ours = (name for name in depths if any(is_of(name, q) for q in (*queues, REDIS_HASH)))
    return sum(depths[name].unacked for name in ours)
