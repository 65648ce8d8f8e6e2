"""Makes the queues of the ``fair_…`` settings known to an app, for publishing and for consuming."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from celery.exceptions import ImproperlyConfigured

from celery_fair.core.levels import HIGHEST
from celery_fair.settings import Settings


def declare_queues(app: Any, settings: Settings) -> None:
    """Add the queues of ``fair_queues`` and the levels of logical queues to the app's.

    They are consumed from unless ``-Q`` was given, except for partitions, which a group assigns.
    Call it before Celery applies ``-Q`` and ``-X``; a second call for the same app does nothing, so
    that what ``-X`` took out stays out.

    Raises:
        celery.exceptions.ImproperlyConfigured: for a name that is no queue, where
            ``task_create_missing_queues`` is off.
    """
    queues = app.amqp.queues
    if getattr(queues, "fair", False):
        return
    fenced = settings.fenced()
    partitions = {p for queue in settings.partitioned.values() for p in queue.queues}
    for name, arguments in _wanted(settings).items():
        queue = dict.get(queues, name) or queues.aliases.get(name) or _missing(queues, name)
        if fenced.queue(name).exclusive:
            arguments.update(_single_active(queue))
        if arguments:
            queue.queue_arguments = {**arguments, **(queue.queue_arguments or {})}
        if queues._consume_from is None and name not in partitions:
            queues.select_add(queue)
        else:
            queues.add(queue)
    logical = [name for name, queue in settings.logical_queues.items() if not queue.native]
    for name in [*logical, *settings.partitioned]:
        if dict.get(queues, name) is None:
            queues.add(queues.new_missing(name))  # a name to publish to, never declared
    if partitions:
        queues.deselect([*partitions, *settings.partitioned])
    queues.fair = True


def queues_of(app: Any) -> set[str]:
    """Return the names of the queues that an app has by its settings, good or bad."""
    names = set(app.amqp.queues)
    with suppress(ImproperlyConfigured):
        names |= _wanted(Settings.of(app)).keys()
    return names


def select_levels(app: Any, settings: Settings) -> None:
    """Consume from its levels where a logical queue was named in ``-Q`` or ``task_queues``."""
    queues = app.amqp.queues
    for name in list(queues.consume_from):
        logical = settings.logical_queues.get(name)
        if logical is not None and not logical.native:
            queues.deselect([name])
            for level in logical.levels.queues:
                queues.select_add(queues[level])


def _wanted(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the physical queues, each with the arguments that it must be declared with."""
    wanted: dict[str, dict[str, Any]] = {name: {} for name in settings.queues}
    for name, logical in settings.logical_queues.items():
        if logical.native:
            wanted[name] = {"x-max-priority": HIGHEST + 1}
        else:
            wanted |= {level: wanted.get(level, {}) for level in logical.levels.queues}
    return wanted


def _single_active(queue: Any) -> dict[str, Any]:
    """Quorum queues ignore a consumer's wish to be the only one; they have this instead."""
    quorum = (queue.queue_arguments or {}).get("x-queue-type") == "quorum"
    return {"x-single-active-consumer": True} if quorum else {}


def _missing(queues: Any, name: str) -> Any:
    if not queues.create_missing:
        raise ImproperlyConfigured(
            f"fair_queues: {name!r} is no queue: it is not in task_queues, and"
            f" task_create_missing_queues is off; there are: {', '.join(sorted(queues)) or 'none'}"
        )
    return queues.new_missing(name)


def collisions(queues: Iterable[Any]) -> Iterator[tuple[str, str, str]]:
    """Yield which queues share a routing key, what comes of that, and how it is mended.

    Celery gives a ``Queue`` that was made without one the default queue's. On a direct exchange a
    message goes to each of them then: tasks run twice, and quanta mean nothing.
    """
    bound: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for queue in queues:
        exchange = queue.exchange
        if exchange is not None and exchange.name and exchange.type == "direct":
            bound[exchange.name, queue.routing_key].append(queue.name)
    for (exchange, key), names in sorted(bound.items()):
        if len(names) > 1:
            names.sort()
            trouble = f"have one routing key, {key!r}, on exchange {exchange!r}"
            yield (
                f"queues {', '.join(names)}",
                f"{trouble}: each message goes to all of them",
                f"give each its own: Queue({names[0]!r}, routing_key={names[0]!r})",
            )
