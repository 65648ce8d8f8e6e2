"""``fair dead-letters count``."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import click

from celery_fair.cli.dead_letters.access import dead_letters_of
from celery_fair.cli.dead_letters.filters import Filters, filtering
from celery_fair.cli.options import Outcome, outcome, table
from celery_fair.dead_letters.letter import Letter
from celery_fair.operate.text import shortened

__all__ = ["count_letters"]

_MOST = 20
"""Rows of a count; what is rarer is one row."""

_WIDTH = 50


def _hour(letter: Letter) -> str:
    return letter.time.strftime("%Y-%m-%d %H:00") if letter.time else ""


_BY: dict[str, Callable[[Letter], str]] = {
    "reason": lambda letter: letter.reason or "",
    "task": lambda letter: letter.task or "",
    "queue": lambda letter: letter.queue or "",
    "hour": _hour,
}


@click.command("count")
@click.option(
    "--by",
    type=click.Choice(list(_BY)),
    multiple=True,
    help="Count by this only; may be repeated.  [default: reason, task, hour]",
)
@filtering
@outcome("Print an object as JSON.")
@click.pass_context
def count_letters(ctx: click.Context, filters: Filters, by: tuple[str, ...]) -> Outcome:
    """Count the dead letters: by reason, by task, by the hour (UTC) in which they came.

    Looking changes nothing. Of a count with very many rows the largest are shown, and of hours the
    latest, and what the others sum up to; --json has them all.

    \b
    Examples:
      celery -A shop fair dead-letters count
      celery -A shop fair dead-letters count --by task --reason redelivered --since 2h

    Exit status: 0; 1 if the broker cannot be reached.
    """
    counts: dict[str, Counter[str]] = {name: Counter() for name in by or ("reason", "task", "hour")}
    whole = 0
    with dead_letters_of(ctx) as queue, closing(queue.browse()) as letters:
        for letter in letters:
            if filters.fit(letter):
                whole += 1
                for name, counter in counts.items():
                    counter[_BY[name](letter)] += 1
    document = {"count": whole, **{name: dict(_sorted(name, c)) for name, c in counts.items()}}
    return Outcome(document, _lines(whole, counts, bool(filters)))


def _sorted(name: str, counter: Counter[str]) -> list[tuple[str, int]]:
    """The most frequent first; hours in their order."""
    if name == "hour":
        return sorted(counter.items())
    return sorted(counter.items(), key=lambda each: (-each[1], each[0]))


def _lines(whole: int, counts: dict[str, Counter[str]], filtered: bool) -> Iterator[str]:
    if not whole:
        yield "No dead letter is like that." if filtered else "There are no dead letters."
        return
    yield f"{whole} dead letters"
    for name, counter in counts.items():
        yield ""
        yield from table((_HEADS.get(name, name), "letters"), _rows(name, counter), "")


_HEADS = {"hour": "hour (UTC)"}


def _rows(name: str, counter: Counter[str]) -> list[list[Any]]:
    rows = _sorted(name, counter)
    if name == "hour":
        shown, others = rows[-_MOST:], rows[:-_MOST]
    else:
        shown, others = rows[:_MOST], rows[_MOST:]
    told = [[shortened(value, _WIDTH) or None, count] for value, count in shown]
    rest = [[f"({len(others)} others)", sum(count for _, count in others)]] if others else []
    return [*rest, *told] if name == "hour" else [*told, *rest]
