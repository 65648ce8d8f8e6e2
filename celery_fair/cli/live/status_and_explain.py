"""``fair status`` and ``fair explain``: what workers say of their queues."""

import click

from celery_fair.cli.live.answers import conclude, show
from celery_fair.cli.live.options import asking
from celery_fair.cli.live.screen import suitable_screen
from celery_fair.cli.live.tables import STATUS, rows_of
from celery_fair.cli.live.workers import Workers

__all__ = ["explain", "status"]


@click.command()
@asking
def status(ctx: click.Context, workers: Workers, as_json: bool) -> None:
    """Show what each worker's queues get, hold and wait for.

    \b
    quantum    what the queue is served per round, in units of cost
    class      under strict priority: a higher one goes first
    target     its quantum by those of all queues that are active at the worker
    share      what it got of the cost served in the last ten seconds
    credit     what it may be served yet in its turn (the deficit counter)
    window     deliveries that the broker may have unsettled here
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
    shown = {worker: rows_of(queues) for worker, queues in answers.good.items()}
    suitable_screen(STATUS, live=False, as_json=as_json, colour=not ctx.obj.no_color).show(shown)
    conclude(ctx, answers)


@click.command()
@click.argument("queue")
@asking
def explain(ctx: click.Context, workers: Workers, as_json: bool, queue: str) -> None:
    """Say why nothing of QUEUE starts now, at each worker that consumes it.

    \b
    no_message  nothing is at the worker: the queue is empty, or its refill is on the way
    no_credit   its credit is used up, and others have their turn
    no_slot     every slot of the pool is busy
    leash       its rate allows no start before a time that is told
    cap         as many of its tasks run as may (max_in_flight)
    paused      an operator has paused it
    starting    nothing holds it back

    \b
    Examples:
      celery -A shop fair explain bulk
      celery -A shop fair explain bulk --json -d celery@host1

    Exit status: 0; 1 if a worker answers with an error or no worker answers.
    """
    answers = workers.ask("fair_explain", queue=queue)
    show(ctx, answers, as_json, lambda answer: f"{queue}: {answer['text']}")
