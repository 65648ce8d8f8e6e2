"""Logical queues: the application names one queue and a priority, the library picks the physical.

Celery's sender is the one place that every way of publishing passes: ``apply_async(queue=…)``,
``task_routes``, ``Task.queue``, the default queue, canvas, beat, retries. There a logical queue's
name gives way to that of the level which the message's priority belongs to. A retry is published to
the physical queue that its message came from, and so keeps its level. Only a message whose exchange
*and* routing key were given, for elsewhere, goes where they say, as in Celery.

With ``"native": True`` the broker's own priorities do the work, on one queue of the logical name,
and the application stays as it is. RabbitMQ declares it with ``x-max-priority``.

Kombu's virtual transports, such as Redis, keep a list per priority and serve *low* numbers first.
On its way out a native queue's number is turned around for them, and a level's messages all get the
same, so that they stay in their order. A worker turns both back: what a task reads as its priority,
retries with and lets its children inherit is the application's number, or its level's lowest.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from time import time
from typing import Any

from celery.app.amqp import AMQP
from celery.utils.imports import symbol_by_name

from celery_fair.core.levels import HIGHEST
from celery_fair.headers import PUBLISHED
from celery_fair.routing.declared import declare_queues
from celery_fair.routing.destination import destination
from celery_fair.routing.partitioned import partitioned
from celery_fair.settings import LogicalQueue, Settings

__all__ = ["amqp_class", "priorities_back", "sender", "stamped"]


def amqp_class(base: Any) -> type[AMQP]:
    """Return a subclass of an app's ``amqp_cls`` whose sender knows logical queues."""

    class FairAMQP(symbol_by_name(base)):  # type: ignore[misc]
        knows_levels = True

        @cached_property
        def send_task_message(self) -> Callable[..., Any]:
            settings = Settings.of(self.app)
            declare_queues(self.app, settings)  # an app that only publishes may not be finalized
            send = stamped(self._create_task_sender())
            send = partitioned(self, settings.partitioned, send)
            return sender(self, settings.logical_queues, send)

    return FairAMQP


def stamped(send: Callable[..., Any]) -> Callable[..., Any]:
    """Return Celery's sender `send`, which then says in each message when it was published."""

    def send_task_message(
        producer: Any, name: str, message: Any, *args: Any, **options: Any
    ) -> Any:
        message.headers[PUBLISHED] = time()
        return send(producer, name, message, *args, **options)

    return send_task_message


def sender(
    amqp: Any, logical: Mapping[str, LogicalQueue], send: Callable[..., Any]
) -> Callable[..., Any]:
    """Return Celery's sender `send`, with logical queues replaced by their levels."""
    if not logical:
        return send
    levels = {level for target in logical.values() for level in target.levels.queues}

    def send_task_message(
        producer: Any,
        name: str,
        message: Any,
        exchange: Any = None,
        routing_key: Any = None,
        queue: Any = None,
        **options: Any,
    ) -> Any:
        queue, named, target = destination(amqp, logical, exchange, routing_key, queue)
        if target is not None:
            exchange = routing_key = None
            priority = _priority(amqp, options.get("priority"))
            if not target.native:
                queue = amqp.queues[target.levels.queue(priority)]
            if _is_virtual(producer):
                priority = HIGHEST - priority if target.native else 0
            options["priority"] = priority
        elif named in levels and _is_virtual(producer):
            options["priority"] = 0
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


def priorities_back(settings: Settings, driver_type: str) -> dict[str, Callable[[int], int]]:
    """Return, by physical queue, what turns a priority on the wire into the application's."""
    back: dict[str, Callable[[int], int]] = {}
    if driver_type != "amqp":
        for name, logical in settings.logical_queues.items():
            if logical.native:
                back[name] = lambda wire: HIGHEST - wire
            else:
                levels = logical.levels
                back |= {level: _always(levels.lowest(level)) for level in levels.queues}
    return back


def _always(priority: int) -> Callable[[int], int]:
    return lambda wire: priority


def _priority(amqp: Any, priority: Any) -> int:
    if priority is None:
        priority = amqp.app.conf.task_default_priority
    return min(max(int(priority or 0), 0), HIGHEST)


def _is_virtual(producer: Any) -> bool:
    return bool(producer.connection.transport.driver_type != "amqp")
