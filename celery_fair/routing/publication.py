"""A message on its way out, and where it is to go."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Publication:
    """What is about to be published, and where to; each step may change that.

    Attributes:
        message: what Celery has made of the task's arguments.
        exchange, routing_key, queue, options: as they are given to Celery's sender.
    """

    amqp: Any
    producer: Any
    task: str
    message: Any
    exchange: Any
    routing_key: Any
    queue: Any
    options: dict[str, Any]

    def aimed_at(self, targets: Mapping[str, T]) -> tuple[str | None, T | None]:
        """Return the name of the queue that is meant, and which of the targets that is, if any."""
        if self.queue is None and self.exchange is None:
            self.queue = self.amqp.default_queue
        named = getattr(self.queue, "name", self.queue)
        elsewhere = self.exchange and self.routing_key and self.routing_key != named
        return named, None if elsewhere else targets.get(named)

    def aim(self, queue: Any, exchange: Any = None, routing_key: Any = None) -> None:
        """Let it go to this queue of the broker, by its own exchange or by another."""
        self.exchange, self.routing_key, self.queue = exchange, routing_key, queue


Step = Callable[[Publication], None]


def arguments(message: Any) -> tuple[Any, Any]:
    """Those of the task, whichever of Celery's protocols this is."""
    if isinstance(message.body, Mapping):
        return message.body.get("args") or (), message.body.get("kwargs") or {}
    args, kwargs, *_ = message.body
    return args or (), kwargs or {}
