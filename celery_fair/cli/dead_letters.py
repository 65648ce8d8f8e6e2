"""``fair dead-letters``, and what looks at them: count, list, show."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from functools import wraps
from typing import Any, TypeVar

import click

from celery_fair.cli.groups import LazyGroup
from celery_fair.cli.options import COUNT, Outcome, outcome, table, the_app
from celery_fair.cli.screen import aligned
from celery_fair.operate.dead_letters import (
    BY,
    Entry,
    Filters,
    find,
    opened,
    shown,
)
from celery_fair.operate.text import age, escaped, parsed_time, shortened

T = TypeVar("T")

_MOST = 20
"""Rows of a count; what is rarer is one row."""

_COMMANDS = {
    "count": "celery_fair.cli.dead_letters:count_letters",
    "list": "celery_fair.cli.dead_letters:list_letters",
    "show": "celery_fair.cli.dead_letters:show_letters",
    "replay": "celery_fair.cli.dead_letter_orders:replay_letters",
    "purge": "celery_fair.cli.dead_letter_orders:purge_letters",
}


@click.group("dead-letters", cls=LazyGroup, where=_COMMANDS)
def dead_letters() -> None:
    """Count, see, replay and purge the messages that were not started.

    A letter is named by its task's id, or by its digest, which list shows for a message without
    one. Looking changes nothing: all letters stay, in their order. While one command looks at them
    on RabbitMQ, another sees none.

    \b
    Examples:
      celery -A shop fair dead-letters count
      celery -A shop fair dead-letters list --since 2h
      celery -A shop fair dead-letters show 6c1ff3b5-6a5c-4a2a-9e6c-0e5b8c2f7d10
      celery -A shop fair dead-letters replay --all --reason unknown-task
    """


def _time(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    try:
        return None if value is None else parsed_time(value)
    except ValueError as exc:
        raise click.BadParameter(str(exc), ctx, param) from exc


def filtering(command: Callable[..., T]) -> Callable[..., T]:
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
        callback=_time,
        help="Only those of this time or later: ISO, or an age such as 90s, 30m, 2h, 3d.",
    )
    @click.option("--before", metavar="WHEN", callback=_time, help="Only those of before.")
    @wraps(command)
    def filtered(*args: Any, **given: Any) -> T:
        filters = Filters(*(given.pop(field.name) for field in fields(Filters)))
        return command(*args, filters=filters, **given)

    return filtered


def _none(filters: Filters) -> str:
    return "No dead letter is like that." if filters else "There are no dead letters."


@click.command("count")
@click.option(
    "--by",
    type=click.Choice(list(BY)),
    multiple=True,
    help="Count by this only; may be repeated.  [default: reason, task, hour]",
)
@filtering
@outcome("Print an object as JSON.")
def count_letters(filters: Filters, by: tuple[str, ...]) -> Outcome:
    """Count the dead letters: by reason, by task, by the hour (UTC) in which they came.

    Looking changes nothing. Of a count with very many rows the largest are shown, and of hours the
    latest, and what the others sum up to; --json has them all.

    \b
    Examples:
      celery -A shop fair dead-letters count
      celery -A shop fair dead-letters count --by task --reason redelivered --since 2h

    Exit status: 0; 1 if the broker cannot be reached.
    """
    with opened(the_app()) as queue:
        found = find(queue, filters, most=0)
    counts = {name: _sorted(name, found.counts[name]) for name in by or ("reason", "task", "hour")}
    document = {"count": found.count, **{name: dict(rows) for name, rows in counts.items()}}
    lines = _counts(found.count, counts) if found.count else [_none(filters)]
    return Outcome(document, lines)


def _sorted(name: str, counter: Counter[str]) -> list[tuple[str, int]]:
    """The most frequent first; hours in their order."""
    if name == "hour":
        return sorted(counter.items())
    return sorted(counter.items(), key=lambda each: (-each[1], each[0]))


def _counts(whole: int, counts: Mapping[str, list[tuple[str, int]]]) -> Iterator[str]:
    yield f"{whole} dead letters"
    for name, rows in counts.items():
        late = name == "hour"
        some, others = (rows[-_MOST:], rows[:-_MOST]) if late else (rows[:_MOST], rows[_MOST:])
        told: list[list[Any]] = [[shortened(value, 50) or None, count] for value, count in some]
        if others:
            rest = [f"({len(others)} others)", sum(count for _, count in others)]
            told = [rest, *told] if late else [*told, rest]
        yield ""
        yield from table(("hour (UTC)" if late else name, "letters"), told, "")


@click.command("list")
@filtering
@click.option(
    "-n", "--limit", metavar="N", type=COUNT, default=50, help="Show no more than N; 0 for all."
)
@outcome("Print a list of objects as JSON.")
def list_letters(filters: Filters, limit: int) -> Outcome:
    """Show the dead letters, the oldest first; nothing is changed.

    \b
    id                what show, replay and purge take: the task's id, or a digest
    task              its name
    queue             where the message was
    reason            why it was not started, such as redelivered
    may have started  whether somebody may have started it before; ? if it does not say
    time, age         when it became a dead letter

    \b
    Examples:
      celery -A shop fair dead-letters list
      celery -A shop fair dead-letters list --reason redelivered --task shop.charge --since 2h
      celery -A shop fair dead-letters list --since 2026-05-31T14:00Z --before 1d --limit 0 --json

    Exit status: 0; 1 if the broker cannot be reached.
    """
    with opened(the_app()) as queue:
        found = find(queue, filters, limit or None)
    now, heads = datetime.now(UTC), ["id", "task", "queue", "reason", "may have started"]
    rows = [_cells(each, now) for each in found.letters]
    lines = aligned([[*heads, "time (UTC)", "age"], *rows]) if rows else [_none(filters)]
    more = found.count - len(rows)
    remarks = [f"{more} more; --limit 0 shows all."] if more else []
    document = [
        asdict(each) | {"time": each.time and each.time.isoformat()} for each in found.letters
    ]
    return Outcome(document, lines, remarks=remarks)


def _cells(letter: Entry, now: datetime) -> list[str]:
    return [
        escaped(letter.id),
        *(shortened(text or "–", 60) for text in (letter.task, letter.queue, letter.reason)),
        {True: "yes", False: "no", None: "?"}[letter.may_have_started],
        letter.time.strftime("%Y-%m-%d %H:%M:%S") if letter.time else "–",
        age(letter.time, now) if letter.time else "–",
    ]


@click.command("show")
@click.argument("letter_id", metavar="ID")
@click.option(
    "--bytes",
    "limit",
    metavar="N",
    type=COUNT,
    default=2000,
    help="Show no more of the body; 0 for all.",
)
@outcome("Print a list of objects as JSON.")
def show_letters(letter_id: str, limit: int) -> Outcome:
    """Show all of a letter: headers, properties, body.

    A body of text is shown as it is, and one of JSON as the task's arguments. What is pickled or
    otherwise no text is shown in base64, and never loaded. If a worker was killed while it moved
    the message, there may be two letters of it; both are shown.

    \b
    Examples:
      celery -A shop fair dead-letters show 6c1ff3b5-6a5c-4a2a-9e6c-0e5b8c2f7d10
      celery -A shop fair dead-letters show 02c4a1f09b7d33e8 --bytes 0 --json

    Exit status: 0; 1 if there is no such letter or the broker cannot be reached.
    """
    with opened(the_app()) as queue:
        found = [all_of_it for _, all_of_it in shown(queue, letter_id, limit)]
    remarks = []
    if not found:
        remarks.append(
            f"Error: there is no dead letter {escaped(letter_id)!r}; dead-letters list shows their"
            " ids"
        )
    lines = [line for letter in found for line in ("", *_letter(letter))][1:]
    return Outcome(found, lines, bool(found), remarks)


def _letter(letter: Mapping[str, Any]) -> Iterator[str]:
    yield f"id: {escaped(letter['id'])}"
    yield f"digest: {letter['digest']}"
    if letter["problem"]:
        yield f"problem: {escaped(letter['problem'])}"
    for part in ("headers", "properties"):
        yield f"{part}:"
        for name, value in letter[part].items():
            yield f"  {escaped(name)}: {_as_text(value)}"
    yield from _body(letter["body"])


def _body(body: Mapping[str, Any]) -> Iterator[str]:
    yield f"body: {body['bytes']} bytes{', cut; --bytes 0 shows all' if body['cut'] else ''}"
    if "args" in body:
        yield f"  args: {_as_text(body['args'])}"
        yield f"  kwargs: {_as_text(body['kwargs'])}"
    elif "text" in body:
        yield from (f"  {escaped(line)}" for line in body["text"].split("\n"))
    else:
        yield f"  base64: {body['base64']}"


def _as_text(value: Any) -> str:
    return escaped(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
