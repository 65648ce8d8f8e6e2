"""``fair dead-letters replay`` and ``purge``: what is asked first, and what is done then."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

import click

from celery_fair.cli.dead_letters.access import dead_letters_of
from celery_fair.cli.dead_letters.filters import Filters, filtering
from celery_fair.cli.dead_letters.interruption import stoppable
from celery_fair.cli.dead_letters.provable import Provable, proven
from celery_fair.cli.dead_letters.reporting import conclude
from celery_fair.cli.dead_letters.show import spellings
from celery_fair.ledger import ledger_at
from celery_fair.letters.census import Census, Copies
from celery_fair.letters.letter import Letter
from celery_fair.letters.replay import Plan, purge, replay
from celery_fair.settings import Settings

__all__ = ["purge_letters", "replay_letters"]

_OPTIONS = (
    click.argument("ids", metavar="[ID]...", nargs=-1),
    click.option("--all", "all_", is_flag=True, help="All letters, or all that the filters fit."),
    filtering,
    click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing."),
    click.option("-y", "--yes", is_flag=True, help="Do not ask."),
    click.option("-j", "--json", "as_json", is_flag=True, help="Print a report as JSON."),
)


def _ordering(command: Callable[..., object]) -> Callable[..., object]:
    return reduce(lambda wrapped, option: option(wrapped), reversed(_OPTIONS), command)


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
    callback=proven,
    help="Replay those that, by the event log, never started: a file of pipeline audit --ids-out.",
)
@click.pass_context
def replay_letters(
    ctx: click.Context,
    ids: Sequence[str],
    all_: bool,
    filters: Filters,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    may_have_started: bool,
    provable: Provable | None,
) -> None:
    """Publish letters to where they were, as fresh messages, and remove them.

    A letter that may have started, or does not say, is refused. Look at what its task has done; if
    that is nothing, replay it with --may-have-started. Or let the event log say which have not:
    --provable replays these, and leaves what was published again since the log was looked at.

    A letter that cannot be replayed stays: its queue is gone, say, or the broker did not confirm
    the message. If there are two letters of one message, one is replayed and the other removed. On
    RabbitMQ, a command that is killed between the broker's confirmation and its acknowledgement
    leaves a letter that was replayed.

    \b
    Examples:
      celery -A shop fair dead-letters replay 6c1ff3b5-6a5c-4a2a-9e6c-0e5b8c2f7d10
      celery -A shop fair dead-letters replay --all --reason unknown-task --dry-run
      celery -A shop fair dead-letters replay --all --queue bulk --since 2h --may-have-started
      celery -A shop fair dead-letters replay --provable replayable.jsonl

    Exit status: 0 if all was done that was asked for; 1 otherwise.
    """
    wanted = _wanted(ids, all_, filters) if provable is None else _proven(ids, filters, provable)
    with dead_letters_of(ctx) as queue:
        plan = Plan(Census.of(queue, wanted))
        for copies in _chosen(plan, ids):
            is_proven = provable is not None and copies.wanted == copies.count
            plan.take(copies, may_have_started or is_proven)
        if dry_run:
            report = plan.foresee(lambda _: 1, lambda copies: copies.count - 1)
        else:
            if len(plan.todo) > 1 and not yes and sys.stdin.isatty():
                click.confirm(f"Replay {len(plan.todo)} dead letters?", abort=True, err=True)
            with (
                _claims(ctx, may_have_started or provable is not None) as forget,
                stoppable() as stop,
                _progress(plan, "Replaying") as tick,
            ):
                report = replay(queue, plan, forget=forget, stop=stop, tick=tick)
    conclude(ctx, report, "replayed", as_json, dry_run)


@click.command("purge")
@_ordering
@click.pass_context
def purge_letters(
    ctx: click.Context,
    ids: Sequence[str],
    all_: bool,
    filters: Filters,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove letters for good.

    It asks first; where standard input is no terminal, --yes is needed.

    \b
    Examples:
      celery -A shop fair dead-letters purge 02c4a1f09b7d33e8
      celery -A shop fair dead-letters purge --all --before 30d --dry-run
      celery -A shop fair dead-letters purge --all --reason malformed --yes

    Exit status: 0 if all was done that was asked for; 1 otherwise.
    """
    wanted = _wanted(ids, all_, filters)
    if not (dry_run or yes or sys.stdin.isatty()):
        raise click.UsageError("purge removes letters for good; say --yes, or --dry-run to look")
    with dead_letters_of(ctx) as queue:
        plan = Plan(Census.of(queue, wanted))
        plan.take_all(_chosen(plan, ids))
        letters = sum(copies.wanted for copies in plan.todo.values())
        if dry_run:
            report = plan.foresee(lambda copies: copies.wanted, lambda _: 0)
        else:
            if letters and not yes:
                click.confirm(f"Remove {letters} dead letters for good?", abort=True, err=True)
            with stoppable() as stop, _progress(plan, "Removing") as tick:
                report = purge(queue, plan, wanted, stop=stop, tick=tick)
    conclude(ctx, report, "purged", as_json, dry_run)


def _wanted(ids: Sequence[str], all_: bool, filters: Filters) -> Callable[[Letter], bool]:
    if all_ and not ids:
        return filters.fit
    if ids and not all_ and not filters:
        names = frozenset(ids)
        return lambda each: not names.isdisjoint({each.digest, *spellings(each.id)})
    raise click.UsageError(
        "name letters by their ids, which dead-letters list shows, or give --all, and with it"
        " filters such as --reason"
    )


def _proven(ids: Sequence[str], filters: Filters, provable: Provable) -> Callable[[Letter], bool]:
    if ids:
        raise click.UsageError("--provable FILE names the letters; leave out the ids")
    return lambda letter: provable.fits(letter) and filters.fit(letter)


def _chosen(plan: Plan, ids: Sequence[str]) -> Iterable[Copies]:
    return plan.pick(dict.fromkeys(ids), spellings) if ids else plan.chosen()


@contextmanager
def _claims(ctx: click.Context, looked_at: bool) -> Iterator[Callable[[str], object]]:
    """What was looked at may be claimed anew; otherwise it would come back as a duplicate."""
    settings = Settings.of(ctx.obj.app)
    if settings.ledger is None or not looked_at:
        yield lambda key: None
    else:
        with closing(ledger_at(settings.ledger, settings.ledger_expiry)) as ledger:
            yield ledger.forget


@contextmanager
def _progress(plan: Plan, label: str) -> Iterator[Callable[[], Any]]:
    if not sys.stderr.isatty():
        yield lambda: None
        return
    with click.progressbar(length=len(plan.todo), label=label, file=sys.stderr) as bar:
        yield lambda: bar.update(1)
