"""Logical queues, as in ``fair_logical_queues``: one name to publishers, a queue a priority."""

from dataclasses import dataclass
from typing import Annotated, Any

from celery.exceptions import ImproperlyConfigured

from celery_fair.core.levels import Levels, check_levels
from celery_fair.settings.table import from_options
from celery_fair.settings.values import Flag, by_queue, parsed, queue_name


def _levels(where: str, value: Any) -> Levels:
    levels: Levels = parsed(check_levels)(where, value)
    for queue in levels.queues:
        queue_name(where, queue)
    return levels


@dataclass(frozen=True)
class LogicalQueue:
    """One entry of ``fair_logical_queues``."""

    levels: Annotated[Levels, _levels]
    """The physical queue of each priority."""
    native: Flag = False
    """Whether the broker's own priorities are used, on one queue of the logical queue's name."""


def _logical_queue(where: str, name: str, options: Any) -> LogicalQueue:
    given = from_options(LogicalQueue, where, options)
    if "levels" not in given:
        levels = {name: [0, 9]} if given.get("native") else None
        given["levels"] = _levels(f"{where}['levels']", levels)
    return LogicalQueue(**given)


def check_logical(where: str, value: Any) -> dict[str, LogicalQueue]:
    """Check ``fair_logical_queues``.

    Raises:
        celery.exceptions.ImproperlyConfigured: naming the queue, the option, and what is allowed.
    """
    logical: dict[str, LogicalQueue] = by_queue(_logical_queue)(where, value)
    for name, queue in logical.items():
        for level in queue.levels.queues:
            if level in logical and not logical[level].native:
                raise ImproperlyConfigured(
                    f"{where}[{name!r}]['levels']: {level!r} is a logical queue itself;"
                    f" a level must be a queue of the broker"
                )
    return logical
