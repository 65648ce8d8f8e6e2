"""Which letters are meant: by reason, task, queue and time."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime
from functools import wraps
from typing import Any

import click

from celery_fair.cli.dead_letters.times import time_or_age
from celery_fair.dead_letters.letter import Letter

__all__ = ["Filters", "filtering"]


@dataclass(frozen=True)
class Filters:
    """All that are given must fit; of one that is given several times, one of them."""

    reasons: tuple[str, ...]
    tasks: tuple[str, ...]
    queues: tuple[str, ...]
    since: datetime | None
    before: datetime | None

    def __bool__(self) -> bool:
        """Whether any is given."""
        return bool(self.reasons or self.tasks or self.queues or self.since or self.before)

    def fit(self, letter: Letter) -> bool:
        """Whether a letter is meant."""
        return (
            (not self.reasons or letter.reason in self.reasons)
            and (not self.tasks or letter.task in self.tasks)
            and (not self.queues or letter.queue in self.queues)
            and self._is_of_the_time(letter.time)
        )

    def _is_of_the_time(self, time: datetime | None) -> bool:
        if time is None:
            return not (self.since or self.before)
        return (not self.since or time >= self.since) and (not self.before or time < self.before)


def filtering(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command these options; call it with `filters` and its own."""

    @click.option(
        "--reason",
        "reasons",
        metavar="REASON",
        multiple=True,
        help="Only letters with this reason, such as redelivered; may be repeated.",
    )
    @click.option(
        "--task", "tasks", metavar="TASK", multiple=True, help="Only of this task; may be repeated."
    )
    @click.option(
        "--queue",
        "queues",
        metavar="QUEUE",
        multiple=True,
        help="Only those that were in this queue; may be repeated.",
    )
    @click.option(
        "--since",
        metavar="WHEN",
        callback=time_or_age,
        help="Only those of this time or later: ISO, or an age such as 90s, 30m, 2h, 3d.",
    )
    @click.option("--before", metavar="WHEN", callback=time_or_age, help="Only those of before.")
    @wraps(command)
    def filtered(*args: Any, **given: Any) -> object:
        filters = Filters(*(given.pop(field.name) for field in fields(Filters)))
        return command(*args, filters=filters, **given)

    return filtered
