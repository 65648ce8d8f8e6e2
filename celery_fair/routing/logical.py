"""Logical queues: the application names one queue and a priority, the library picks the physical one.

Celery's sender is the one place that every way of publishing passes: ``apply_async(queue=…)``,
``task_routes``, ``Task.queue``, the default queue, canvas, beat, retries. There a logical queue's name
gives way to that of the level which the message's priority belongs to. A retry is published to the
physical queue that its message came from, and so keeps its level.

With ``"native": True`` the broker's own priorities do the work, on one queue of the logical name, and
the application stays as it is. RabbitMQ declares it with ``x-max-priority``; on Redis, where kombu
serves *low* numbers first, the number is turned around on its way out.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from celery.app.amqp import AMQP
from celery.utils.imports import symbol_by_name

from celery_fair.core.levels import HIGHEST
from celery_fair.settings import LogicalQueue, Settings

__all__ = ["amqp_class", "sender"]


def amqp_class(base: Any) -> type[AMQP]:
    """Return a subclass of an app's ``amqp_cls`` whose sender knows logical queues."""

    class FairAMQP(symbol_by_name(base)):  # type: ignore[misc]
        knows_levels = True

        @cached_property
        def send_task_message(self) -> Callable[..., Any]:
            return sender(self, self._create_task_sender())

    return FairAMQP


def sender(amqp: Any, send: Callable[..., Any]) -> Callable[..., Any]:
    """Return Celery's sender `send`, with logical queues replaced by their levels."""
    logical = Settings.of(amqp.app).logical_queues
    if not logical:
        return send

    def send_task_message(
        producer: Any,
        name: str,
        message: Any,
        exchange: Any = None,
        routing_key: Any = None,
        queue: Any = None,
        **options: Any,
    ) -> Any:
        if queue is None and exchange is None:
            queue = amqp.default_queue
        target = logical.get(getattr(queue, "name", queue))
        if target is not None:
            queue = _level(amqp, target, queue, options)
            exchange = routing_key = None
            _translate(target, producer, options)
        return send(
            producer,
            name,
            message,
            exchange=exchange,
            routing_key=routing_key,
            queue=queue,
            **options,
        )

    return send_task_message


def _level(amqp: Any, target: LogicalQueue, queue: Any, options: dict[str, Any]) -> Any:
    priority = options.get("priority")
    if priority is None:
        priority = amqp.app.conf.task_default_priority
    options["priority"] = min(max(int(priority or 0), 0), HIGHEST)
    return queue if target.native else amqp.queues[target.levels.queue(options["priority"])]


def _translate(target: LogicalQueue, producer: Any, options: dict[str, Any]) -> None:
    """Say the priority in the broker's terms."""
    if producer.connection.transport.driver_type == "amqp":
        return
    # Kombu's virtual transports keep a list per priority, and serve 0 first.
    options["priority"] = HIGHEST - options["priority"] if target.native else 0
