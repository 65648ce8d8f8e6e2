"""What a message is published to, going by what its publisher said."""

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def destination(
    amqp: Any, targets: Mapping[str, T], exchange: Any, routing_key: Any, queue: Any
) -> tuple[Any, str | None, T | None]:
    """Return the queue that is meant, its name, and which of the targets that is, if any.

    If both an exchange *and* a routing key are given, the message goes there, as in Celery.
    """
    if queue is None and exchange is None:
        queue = amqp.default_queue
    named = getattr(queue, "name", queue)
    target = targets.get(named)
    if exchange and routing_key and routing_key != named:
        target = None
    return queue, named, target
