"""``fair status``."""

import json

import click

from celery_fair.cli.live.answers import conclude
from celery_fair.cli.live.figures import Row
from celery_fair.cli.live.options import asking
from celery_fair.cli.live.tables import STATUS, tables
from celery_fair.cli.live.workers import Workers
from celery_fair.cli.screen import PlainScreen, suitable_screen

__all__ = ["status"]


@click.command()
@asking
def status(ctx: click.Context, workers: Workers, as_json: bool) -> None:
    """Show what each worker's queues get, hold and wait for.

    \b
    quantum    what the queue is served per round, in units of cost
    class      under strict priority: a higher one goes first
    target     its quantum as a part of those of all queues that are active at the worker
    share      what it got of the cost served in the last ten seconds
    credit     what it may still be served in its turn (the deficit counter)
    window     deliveries that may be unsettled here at once
    buffered   messages that wait here, of these deliveries
    in flight  tasks that run
    served     messages started since the worker's start
    waiting    how long the oldest buffered message has waited here
    held back  paused; cap: as many in flight as it may; leash: until its next token

    \b
    Examples:
      celery -A shop fair status
      celery -A shop fair status -d celery@host1,celery@host2
      celery -A shop fair status --json | python -m json.tool

    Exit status: 0; 1 if a worker answers with an error or no worker answers.
    """
    answers = workers.ask("fair_status")
    if as_json:
        click.echo(json.dumps(answers.good, indent=2))
    else:
        rows = {w: [Row(*row) for row in queues.items()] for w, queues in answers.good.items()}
        screen = suitable_screen(PlainScreen(), no_color=ctx.obj.no_color)
        screen.show(*tables(STATUS, rows, screen.width))
    conclude(ctx, answers)
