"""``fair dead-letters``: count, list, show, and replay and purge."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from celery_fair.cli.groups import Group
from celery_fair.cli.interrupt import in_steps
from celery_fair.cli.options import COUNT, Outcome, outcome, parsed_by, table, the_app
from celery_fair.dead_letters.plan import MAY_HAVE_STARTED, Report
from celery_fair.operate.dead_letters import BY, Filters, Order, Provable, find, opened, shown
from celery_fair.operate.text import age, escaped, escaped_lines, parsed_time, shortened

T = TypeVar("T")

_HEADS = ("id", "task", "queue", "reason", "may have started", "time (UTC)", "age")

_NAMED = 20
"""Letters with the same outcome that are named; --json names all."""


@click.group("dead-letters", cls=Group)
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
        callback=parsed_by(parsed_time),
        help="Only those of this time or later: ISO, or an age such as 90s, 30m, 2h, 3d.",
    )
    @click.option(
        "--before", metavar="WHEN", callback=parsed_by(parsed_time), help="Only older ones."
    )
    @wraps(command)
    def filtered(*args: Any, **given: Any) -> T:
        filters = Filters(*(given.pop(field.name) for field in fields(Filters)))
        return command(*args, filters=filters, **given)

    return filtered


def _none(filters: Filters) -> str:
    return "No dead letter is like that." if filters else "There are no dead letters."


@dead_letters.command("count")
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

    Looking changes nothing.

    \b
    Examples:
      celery -A shop fair dead-letters count
      celery -A shop fair dead-letters count --by task --reason redelivered --since 2h

    Exit status: 0; 1 if the broker cannot be reached.
    """
    with opened(the_app()) as queue:
        found = find(queue, filters, most=0)
    counts = {name: found.counts[name].most_common() for name in by or ("reason", "task", "hour")}
    if "hour" in counts:
        counts["hour"].sort()
    document = {"count": found.count, **{name: dict(rows) for name, rows in counts.items()}}
    lines = _counts(found.count, counts) if found.count else [_none(filters)]
    return Outcome(document, lines)


def _counts(whole: int, counts: Mapping[str, list[tuple[str, int]]]) -> Iterator[str]:
    yield f"{whole} dead letters"
    for name, rows in counts.items():
        told = [[shortened(value, 50) or None, count] for value, count in rows]
        yield ""
        yield from table(("hour (UTC)" if name == "hour" else name, "letters"), told, "")


@dead_letters.command("list")
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
    now = datetime.now(UTC)
    lines = table(_HEADS, [_cells(each, now) for each in found.letters], _none(filters))
    more = found.count - len(found.letters)
    remarks = [f"{more} more; --limit 0 shows all."] if more else []
    document = [
        {**each, "time": each["time"] and each["time"].isoformat()} for each in found.letters
    ]
    return Outcome(document, lines, remarks=remarks)


def _cells(letter: Mapping[str, Any], now: datetime) -> list[str]:
    time = letter["time"]
    return [
        letter["id"],
        *(shortened(letter[name] or "–", 60) for name in ("task", "queue", "reason")),
        {True: "yes", False: "no", None: "?"}[letter["may_have_started"]],
        time.strftime("%Y-%m-%d %H:%M:%S") if time else "–",
        age(time, now) if time else "–",
    ]


@dead_letters.command("show")
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
    """Show all of a letter as JSON: headers, properties, body.

    Of a body of JSON the task's arguments are shown, too. What is pickled or otherwise no text is
    shown in base64, and never loaded. If a worker was killed while it moved the message, there may
    be two letters of it; both are shown.

    \b
    Examples:
      celery -A shop fair dead-letters show 6c1ff3b5-6a5c-4a2a-9e6c-0e5b8c2f7d10
      celery -A shop fair dead-letters show 02c4a1f09b7d33e8 --bytes 0 --json

    Exit status: 0; 1 if there is no such letter or the broker cannot be reached.
    """
    with opened(the_app()) as queue:
        found = [all_of_it for _, all_of_it in shown(queue, letter_id, limit)]
    if not found:
        said = f"there is no dead letter {letter_id!r}; dead-letters list shows their ids"
        raise click.ClickException(said)
    return Outcome(found, [escaped_lines(json.dumps(found, indent=2, ensure_ascii=False))])


def _ordering(command: Callable[..., Outcome]) -> Callable[..., None]:
    """Give a command these options; call it with `ids`, `filters`, `dry_run`, `yes`, its own."""

    @click.argument("ids", metavar="[ID]...", nargs=-1)
    @click.option("--all", "all_", is_flag=True, help="All letters, or all that the filters fit.")
    @filtering
    @click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
    @click.option("-y", "--yes", is_flag=True, help="Do not ask.")
    @outcome("Print a report as JSON.")
    @wraps(command)
    def ordered(ids: tuple[str, ...], all_: bool, filters: Filters, **given: Any) -> Outcome:
        if given.get("provable") is not None:
            if ids:
                raise click.UsageError("--provable FILE names the letters; leave out the ids")
        elif bool(ids) == all_ or (ids and filters):
            raise click.UsageError(
                "name letters by their ids, which dead-letters list shows, or give --all, and with"
                " it filters such as --reason"
            )
        return command(ids=ids, filters=filters, **given)

    return ordered


@dead_letters.command("replay")
@_ordering
@click.option(
    "--may-have-started",
    is_flag=True,
    help="Replay letters that may have started, too: they may then run a second time.",
)
@click.option(
    "--provable",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    callback=parsed_by(Provable),
    help="Replay those that, by the event log, never started: a file of pipeline audit --ids-out.",
)
def replay_letters(
    ids: tuple[str, ...],
    filters: Filters,
    dry_run: bool,
    yes: bool,
    may_have_started: bool,
    provable: Provable | None,
) -> Outcome:
    """Publish letters to where they were, as fresh messages, and remove them.

    A letter that may have started, or does not say, is refused. Look at what its task has done; if
    that is nothing, replay it with --may-have-started. Or let the event log say which have not:
    --provable replays these, and leaves what was published again since the log was looked at, and
    duplicates, whose work another message may have done. Of letters for the same work one starts.

    A letter that cannot be replayed stays: its queue is gone, say, or the broker did not confirm
    the message. If there are two letters of one message, one is replayed and the other removed. On
    RabbitMQ, a command that is killed between the broker's confirmation and its acknowledgement
    leaves letters that were replayed: a hundred at the most. Of those with the same outcome twenty
    are named; --json names all.

    \b
    Examples:
      celery -A shop fair dead-letters replay 6c1ff3b5-6a5c-4a2a-9e6c-0e5b8c2f7d10
      celery -A shop fair dead-letters replay --all --reason unknown-task --dry-run
      celery -A shop fair dead-letters replay --all --queue bulk --since 2h --may-have-started
      celery -A shop fair dead-letters replay --provable replayable.jsonl

    Exit status: 0 if all was done that was asked for; 1 otherwise.
    """
    order = Order(filters.fit, ids, may_have_started=may_have_started, proven=provable)
    return _done(order, dry_run, yes, "Replay {} dead letters?", "replayed")


@dead_letters.command("purge")
@_ordering
def purge_letters(ids: tuple[str, ...], filters: Filters, dry_run: bool, yes: bool) -> Outcome:
    """Remove letters for good.

    It asks first; where standard input is no terminal, --yes is needed.

    \b
    Examples:
      celery -A shop fair dead-letters purge 02c4a1f09b7d33e8
      celery -A shop fair dead-letters purge --all --before 30d --dry-run
      celery -A shop fair dead-letters purge --all --reason malformed --yes

    Exit status: 0 if all was done that was asked for; 1 otherwise.
    """
    if not (dry_run or yes or sys.stdin.isatty()):
        raise click.UsageError("purge removes letters for good; say --yes, or --dry-run to look")
    order = Order(filters.fit, ids, purges=True)
    return _done(order, dry_run, yes, "Remove {} dead letters for good?", "purged")


def _done(order: Order, dry_run: bool, yes: bool, question: str, done: str) -> Outcome:
    """Do what was ordered, unless somebody who is asked does not want it.

    One letter is replayed unasked.
    """
    app, unasked = the_app(), 0 if order.purges else 1
    with opened(app) as queue:
        plan = order.plan(queue)
        if dry_run:
            return _reported(order.foresee(plan), done, dry_run)
        messages = plan.todo.values()
        count = sum(copies.wanted for copies in messages) if order.purges else len(messages)
        if count > unasked and not yes and sys.stdin.isatty():
            click.confirm(question.format(count), abort=True, err=True)
        with in_steps("Removing" if order.purges else "Replaying", len(messages)) as (stop, tick):
            return _reported(order.do(app, queue, plan, stop, tick), done)


def _reported(report: Report, done: str, dry_run: bool = False) -> Outcome:
    """Return what was done, such as "replayed"."""
    document = {
        done: report.done,
        "refused": report.refused,
        "failed": report.failed,
        "duplicates": report.duplicates,
        **({"dry_run": True} if dry_run else {}),
    }
    would = "would be " if dry_run else ""
    troubles = {f"refused, as it {MAY_HAVE_STARTED}": report.refused} if report.refused else {}
    for name, text in report.failed.items():
        troubles.setdefault(f"failed: {text}", []).append(name)
    lines = [_named(f"{would}{done}", report.done)]
    if report.duplicates:
        lines.append(_named(f"{would}removed as duplicates", report.duplicates))
    errors = [_named(text, names) for text, names in troubles.items()]
    return Outcome(document, lines, report.whole, errors)


def _named(outcome: str, names: Sequence[str]) -> str:
    some = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    return escaped(f"{len(names)} {outcome}" + (f": {some}" if some else ""))
