"""``fair status``."""

from collections.abc import Mapping, Sequence

import click

from celery_fair.cli.escaped import escaped
from celery_fair.cli.live.answers import conclude
from celery_fair.cli.live.figures import Row
from celery_fair.cli.live.options import asking, view_option
from celery_fair.cli.live.sums import summed, title
from celery_fair.cli.live.tables import STATUS, SUMMED, tables
from celery_fair.cli.live.workers import Workers
from celery_fair.cli.options import dumped
from celery_fair.cli.screen import PlainScreen, suitable_screen

__all__ = ["status"]


@click.command()
@view_option
@asking
def status(ctx: click.Context, workers: Workers, as_json: bool, by: str | None) -> None:
    """Show what queues get, and what waits in them, over all workers, or at each one.

    Workers of another app on the same broker, which has another name and other queues, are named,
    and left out unless -d asks them.

    \b
    Over all workers:
    workers    that consume the queue
    target     its part of what is served, by the quanta of the queues that are active
    share      what it got of the cost served in the last ten seconds
    starts/s   in the last ten seconds
    in flight  tasks that run
    at workers, at broker  messages that wait; in a queue of fair_keys, its lanes' too
    oldest     the age of the oldest of them, where it is told: publishers have `install`, and it
               is at a worker, or in Redis; a RabbitMQ shows nothing without giving it out
    empty in   how long until all that waits has started, if no more comes
    held back  paused; cap: as many in flight as it may; leash: until its next token

    \b
    With --by worker also:
    quantum    what the queue is served per round, in units of cost
    class      under strict priority: a higher one goes first
    credit     what it may still be served in its turn (the deficit counter)
    window     deliveries that may be unsettled here at once
    buffered   messages that wait here, of these deliveries
    served     messages started since the worker's start
    waiting    how long the oldest buffered message has waited here

    --json prints the workers' answers; with --by queue, what they sum up to.

    \b
    Examples:
      celery -A shop fair status
      celery -A shop fair status --by worker -d celery@host1,celery@host2
      celery -A shop fair status --json | python -m json.tool
      celery -A shop fair keys jobs

    Exit status: 0; 1 if a worker answers with an error or no worker answers.
    """
    answers = workers.status()
    if by == "worker" or (as_json and by is None):
        if as_json:
            click.echo(dumped({worker: answers.raw[worker] for worker in answers.good}, indent=2))
        else:
            rows = {w: [Row(*row) for row in queues.items()] for w, queues in answers.good.items()}
            _show(ctx, STATUS, rows)
    else:
        queues, trouble = summed(workers, answers.good) if answers.good else ({}, "")
        if as_json:
            click.echo(dumped(queues, indent=2))
        elif answers.good:
            some = [Row(*row, per_second=row[1]["per_second"]) for row in queues.items()]
            _show(ctx, SUMMED, {title(answers.good): some})
        if trouble:
            click.echo(escaped(f"Note: {trouble}"), err=True)
    conclude(ctx, answers)


def _show(ctx: click.Context, names: tuple[str, ...], rows: Mapping[str, Sequence[Row]]) -> None:
    screen = suitable_screen(PlainScreen(), no_color=ctx.obj.no_color)
    screen.show(*tables(names, rows, screen.width))
