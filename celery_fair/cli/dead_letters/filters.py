"""Which letters are meant: by reason, task, queue and time."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import reduce, wraps
from typing import Any

import click

from celery_fair.cli.dead_letters.moment import moment
from celery_fair.letters.letter import Letter

__all__ = ["Filters", "filtering"]


@dataclass(frozen=True)
class Filters:
    """All that are given must fit; of one that is given several times, one of them."""

    reasons: frozenset[str]
    tasks: frozenset[str]
    queues: frozenset[str]
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


_OPTIONS = (
    click.option(
        "--reason",
        "reasons",
        metavar="REASON",
        multiple=True,
        help="Only letters with this reason, such as redelivered; may be repeated.",
    ),
    click.option(
        "--task", "tasks", metavar="TASK", multiple=True, help="Only of this task; may be repeated."
    ),
    click.option(
        "--queue",
        "queues",
        metavar="QUEUE",
        multiple=True,
        help="Only those that were in this queue; may be repeated.",
    ),
    click.option(
        "--since",
        metavar="WHEN",
        callback=moment,
        help="Only those of this time or later: ISO, or an age such as 90s, 30m, 2h, 3d.",
    ),
    click.option("--before", metavar="WHEN", callback=moment, help="Only those of before."),
)


def filtering(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command these options; call it with `filters` and its own."""

    @wraps(command)
    def filtered(*args: Any, **given: Any) -> object:
        reasons, tasks, queues = (frozenset(given.pop(n)) for n in ("reasons", "tasks", "queues"))
        filters = Filters(reasons, tasks, queues, given.pop("since"), given.pop("before"))
        return command(*args, filters=filters, **given)

    return reduce(lambda wrapped, option: option(wrapped), reversed(_OPTIONS), filtered)
