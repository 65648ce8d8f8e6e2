"""Logical queues: the application names one queue and a priority, the library picks the physical.

Celery's sender is the one place that every way of publishing passes: ``apply_async(queue=…)``,
``task_routes``, ``Task.queue``, the default queue, canvas, beat, retries. There a logical queue's
name gives way to that of the level which the message's priority belongs to. A retry is published to
the physical queue that its message came from, and so keeps its level. Only a message for which an
exchange *and* a routing key were given goes there instead, as in Celery.

With ``"native": True`` the broker's own priorities do the work, on one queue of the logical name,
and the application stays as it is. RabbitMQ declares it with ``x-max-priority``.

Kombu's virtual transports, such as Redis, keep a list per priority and serve *low* numbers first.
On the way out the number for a native queue is reversed for them, and all messages of a level get
the same number, so that they stay in order. A worker undoes both: the priority that a task reads,
retries with and lets its children inherit is the application's number, or the lowest of its level.
"""

from collections.abc import Callable, Mapping
from time import time
from typing import Any

from celery_fair.brokers.broker import broker_of
from celery_fair.core.levels import HIGHEST
from celery_fair.headers import LEDGER, PUBLISHED, STRICT
from celery_fair.ledger import fingerprint
from celery_fair.routing.declared import declare_queues
from celery_fair.routing.destination import destination
from celery_fair.routing.keyed import keyed
from celery_fair.routing.partitioned import partitioned
from celery_fair.settings import LogicalQueue, Settings

_OF_A_DELIVERY = ("redelivered", STRICT)
"""Headers that tell of one message, and of none that is published when its task runs."""


def chained(amqp: Any) -> Callable[..., Any]:
    """Return an app's sender: Celery's, behind all that a message passes first."""
    settings = Settings.of(amqp.app)
    declare_queues(amqp.app, settings)  # an app that only publishes may not be finalized
    send = stamped(amqp._create_task_sender(), settings.ledger)
    send = keyed(amqp, settings.keys, send)
    send = partitioned(amqp, settings.partitioned, send)
    return sender(amqp, settings.logical_queues, send)


def stamped(send: Callable[..., Any], ledger: str | None = None) -> Callable[..., Any]:
    """Return Celery's sender `send`, which then says in each message when it was published.

    Arguments:
        ledger: the URL of the one in which its work is to be claimed; the message names it.
    """
    stamps = {} if ledger is None else {LEDGER: fingerprint(ledger)}

    def send_task_message(
        producer: Any, name: str, message: Any, *args: Any, **options: Any
    ) -> Any:
        given = options.get("headers") or {}  # a retry takes along what it does not know
        options["headers"] = {k: v for k, v in given.items() if k not in _OF_A_DELIVERY}
        message.headers.update(stamps, **{PUBLISHED: time()})
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
            if not broker_of(producer.connection).highest_first:
                priority = HIGHEST - priority if target.native else 0
            options["priority"] = priority
        elif named in levels and not broker_of(producer.connection).highest_first:
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


def priorities_back(settings: Settings, connection: Any) -> dict[str, Callable[[int], int]]:
    """Return, by physical queue, what turns a priority on the wire into the application's."""
    back: dict[str, Callable[[int], int]] = {}
    if not broker_of(connection).highest_first:
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
