"""``fair dead-letters replay`` and ``purge``."""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import click

from celery_fair.cli.dead_letters.access import dead_letters_of
from celery_fair.cli.dead_letters.order import Order, ordering
from celery_fair.cli.dead_letters.provable import Provable, proven
from celery_fair.dead_letters.plan import Plan
from celery_fair.dead_letters.replay import purge, replay
from celery_fair.ledger import ledger_at
from celery_fair.settings import Settings

__all__ = ["claims_of", "purge_letters", "replay_letters"]


@click.command("replay")
@ordering
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
def replay_letters(
    ctx: click.Context, order: Order, may_have_started: bool, provable: Provable | None
) -> None:
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
    if provable is None:
        wanted = order.wanted()
    elif order.ids:
        raise click.UsageError("--provable FILE names the letters; leave out the ids")
    else:
        wanted = provable.among(order.filters.fit)
    with dead_letters_of(ctx) as queue:
        plan = Plan(queue, wanted)
        for copies in order.chosen(plan):
            is_proven = provable is not None and copies.wanted == copies.count
            plan.replay(copies, may_have_started or is_proven)
        if order.dry_run:
            report = plan.foresee(lambda _: 1, lambda copies: copies.count - 1)
        else:
            if len(plan.todo) > 1 and order.asks:
                click.confirm(f"Replay {len(plan.todo)} dead letters?", abort=True, err=True)
            with (
                claims_of(ctx, may_have_started or provable is not None) as forget,
                order.running(plan, "Replaying") as steps,
            ):
                report = replay(queue, plan, forget=forget, **steps)
    order.conclude(report, "replayed")


@click.command("purge")
@ordering
def purge_letters(ctx: click.Context, order: Order) -> None:
    """Remove letters for good.

    It asks first; where standard input is no terminal, --yes is needed.

    \b
    Examples:
      celery -A shop fair dead-letters purge 02c4a1f09b7d33e8
      celery -A shop fair dead-letters purge --all --before 30d --dry-run
      celery -A shop fair dead-letters purge --all --reason malformed --yes

    Exit status: 0 if all was done that was asked for; 1 otherwise.
    """
    wanted = order.wanted()
    if not (order.dry_run or order.yes or sys.stdin.isatty()):
        raise click.UsageError("purge removes letters for good; say --yes, or --dry-run to look")
    with dead_letters_of(ctx) as queue:
        plan = Plan(queue, wanted)
        for copies in order.chosen(plan):
            plan.purge(copies)
        letters = sum(copies.wanted for copies in plan.todo.values())
        if order.dry_run:
            report = plan.foresee(lambda copies: copies.wanted, lambda _: 0)
        else:
            if letters and not order.yes:
                click.confirm(f"Remove {letters} dead letters for good?", abort=True, err=True)
            with order.running(plan, "Removing") as steps:
                report = purge(queue, plan, wanted, **steps)
    order.conclude(report, "purged")


@contextmanager
def claims_of(ctx: click.Context, looked_at: bool) -> Iterator[Callable[[str], object]]:
    """What was looked at may be claimed anew; otherwise it would come back as a duplicate."""
    settings = Settings.of(ctx.obj.app)
    if settings.ledger is None or not looked_at:
        yield lambda key: None
    else:
        with closing(ledger_at(settings.ledger, settings.ledger_expiry)) as ledger:
            yield ledger.forget
