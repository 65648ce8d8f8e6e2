"""Logical queues, as in ``fair_logical_queues``: one name to publishers, a queue a priority."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from celery.exceptions import ImproperlyConfigured

from celery_fair.core.levels import Levels, check_levels
from celery_fair.settings.values import flag, mapping, queue_name


@dataclass(frozen=True)
class LogicalQueue:
    """One entry of ``fair_logical_queues``.

    Attributes:
        levels: the physical queue of each priority.
        native: the broker's own priorities are used, on one queue of the logical queue's name.
    """

    levels: Levels
    native: bool = False


def checked_logical_queues(where: str, value: Any) -> dict[str, LogicalQueue]:
    """Check ``fair_logical_queues``.

    Raises:
        celery.exceptions.ImproperlyConfigured: naming the queue, the option, and what is allowed.
    """
    logical = {
        queue_name(where, name): _logical_queue(f"{where}[{name!r}]", name, options)
        for name, options in mapping(where, value).items()
    }
    for name, queue in logical.items():
        for level in queue.levels.queues:
            if level in logical and not logical[level].native:
                raise ImproperlyConfigured(
                    f"{where}[{name!r}]['levels']: {level!r} is a logical queue itself;"
                    f" a level must be a queue of the broker"
                )
    return logical


def _logical_queue(where: str, name: str, options: Any) -> LogicalQueue:
    if not isinstance(options, Mapping) or set(options) - {"levels", "native"}:
        raise ImproperlyConfigured(
            f"{where} must be a mapping with 'levels' and, optionally, 'native', not {options!r}"
        )
    native = flag(f"{where}['native']", options.get("native", False))
    levels = options.get("levels", {name: [0, 9]} if native else None)
    try:
        checked = check_levels(levels)
    except ValueError as exc:
        raise ImproperlyConfigured(f"{where}['levels']: {exc}") from None
    for queue in checked.queues:
        queue_name(f"{where}['levels']", queue)
    return LogicalQueue(checked, native)
