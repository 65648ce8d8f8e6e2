"""``fair dead-letters replay`` and ``purge``."""

import sys
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import click

from celery_fair.cli.dead_letters import filtering
from celery_fair.cli.interrupt import in_steps
from celery_fair.cli.options import Outcome, outcome, the_app
from celery_fair.cli.screen import Line
from celery_fair.dead_letters.plan import MAY_HAVE_STARTED, Report
from celery_fair.operate.dead_letters import Filters, Order, Provable, opened
from celery_fair.operate.text import escaped

_NAMED = 20
"""Letters with the same outcome that are named one by one; of more there is a sum, and --json."""


def _proven(ctx: click.Context, param: click.Parameter, path: Path | None) -> Provable | None:
    try:
        return None if path is None else Provable(path)
    except ValueError as exc:
        raise click.BadParameter(str(exc), ctx, param) from exc


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


@click.command("replay")
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
    callback=_proven,
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
    --provable replays these, and leaves what was published again since the log was looked at.

    A letter that cannot be replayed stays: its queue is gone, say, or the broker did not confirm
    the message. If there are two letters of one message, one is replayed and the other removed. On
    RabbitMQ, a command that is killed between the broker's confirmation and its acknowledgement
    leaves letters that were replayed: a hundred at the most. Of more than twenty letters a sum is
    printed; --json names each.

    \b
    Examples:
      celery -A shop fair dead-letters replay 6c1ff3b5-6a5c-4a2a-9e6c-0e5b8c2f7d10
      celery -A shop fair dead-letters replay --all --reason unknown-task --dry-run
      celery -A shop fair dead-letters replay --all --queue bulk --since 2h --may-have-started
      celery -A shop fair dead-letters replay --provable replayable.jsonl

    Exit status: 0 if all was done that was asked for; 1 otherwise.
    """
    order = Order(filters.fit, ids, may_have_started=may_have_started, proven=provable)
    app = the_app()
    with opened(app) as queue:
        plan = order.plan(queue)
        count = len(plan.todo)
        if dry_run:
            return _reported(order.foresee(plan), "replayed", dry_run)
        if count > 1 and not yes and sys.stdin.isatty():
            click.confirm(f"Replay {count} dead letters?", abort=True, err=True)
        with in_steps("Replaying", count) as (stop, tick):
            return _reported(order.do(app, queue, plan, stop, tick), "replayed")


@click.command("purge")
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
    order, app = Order(filters.fit, ids, purges=True), the_app()
    with opened(app) as queue:
        plan = order.plan(queue)
        count = sum(copies.wanted for copies in plan.todo.values())
        if dry_run:
            return _reported(order.foresee(plan), "purged", dry_run)
        if count and not yes:
            click.confirm(f"Remove {count} dead letters for good?", abort=True, err=True)
        with in_steps("Removing", len(plan.todo)) as (stop, tick):
            return _reported(order.do(app, queue, plan, stop, tick), "purged")


def _reported(report: Report, done: str, dry_run: bool = False) -> Outcome:
    """Return what was done, such as "replayed"."""
    document = {
        done: report.done,
        "refused": report.refused,
        "failed": report.failed,
        "duplicates": report.duplicates,
        **({"dry_run": True} if dry_run else {}),
    }
    return Outcome(document, _told(report, done, "would be " if dry_run else ""), report.whole)


def _told(report: Report, done: str, would: str) -> Iterator[str | Line]:
    """Name each, if they are few; else say how many there are of each kind."""
    yield from _each(report.done, f"{would}{done}")
    yield from _each(report.duplicates, f"a duplicate of it {would or 'was '}removed")
    yield from _each(report.refused, MAY_HAVE_STARTED, "Refused")
    by_trouble: dict[str, list[str]] = {}
    for name, text in report.failed.items():
        by_trouble.setdefault(text, []).append(name)
    for text, names in by_trouble.items():
        yield from _each(names, escaped(text), "Error")
    duplicates = len(report.duplicates)
    counts = [
        f"{len(report.done)} {would}{done}",
        f"{duplicates} duplicates {would or 'were '}removed" if duplicates > _NAMED else "",
        f"{len(report.refused)} refused" if report.refused else "",
        f"{len(report.failed)} failed" if report.failed else "",
    ]
    yield Line(f"{', '.join(filter(None, counts))}.", err=True)


def _each(names: list[str], text: str, wrong: str = "") -> Iterator[Line]:
    if len(names) <= _NAMED:
        for name in names:
            yield Line(f"{wrong and wrong + ': '}{escaped(name)}: {text}", err=bool(wrong))
    elif wrong:
        first = ", ".join(map(escaped, names[:3]))
        yield Line(f"{wrong}: {len(names)} letters, such as {first}: {text}", err=True)
