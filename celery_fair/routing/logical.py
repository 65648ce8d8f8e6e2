"""Logical queues: the application names one queue and a priority, the library picks the physical.

In Celery's sender (see `sender`) a logical queue's name gives way to that of the level which the
message's priority belongs to.

With ``"native": True`` the broker's own priorities do the work, on one queue of the logical name,
and the application stays as it is. RabbitMQ declares it with ``x-max-priority``.

Kombu's virtual transports, such as Redis, keep a list per priority and serve *low* numbers first.
On the way out the number for a native queue is reversed for them, and all messages of a level get
the same number, so that they stay in order. A worker undoes both: the priority that a task reads,
retries with and lets its children inherit is the application's number, or the lowest of its level.
"""

from collections.abc import Callable, Mapping
from typing import Any

from celery_fair.brokers.broker import broker_of
from celery_fair.core.levels import HIGHEST
from celery_fair.routing.publication import Publication, Step
from celery_fair.settings import LogicalQueue, Settings


def leveled(logical: Mapping[str, LogicalQueue]) -> Step:
    """Return the step that puts a level in a logical queue's place."""
    levels = {level for target in logical.values() for level in target.levels.queues}

    def choose_level(this: Publication) -> None:
        named, target = this.aimed_at(logical)
        if target is None and named not in levels:
            return
        lowest_first = not broker_of(this.producer.connection).highest_first
        if target is not None:
            priority = _priority(this.amqp, this.options.get("priority"))
            this.aim(this.queue)
            if not target.native:
                this.aim(this.amqp.queues[target.levels.queue(priority)])
            if lowest_first:
                priority = HIGHEST - priority if target.native else 0
            this.options["priority"] = priority
        elif lowest_first:
            this.options["priority"] = 0

    return choose_level


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
