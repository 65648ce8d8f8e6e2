"""``fair explain``."""

import click

from celery_fair.cli.live.answers import show
from celery_fair.cli.live.options import asking
from celery_fair.cli.live.workers import Workers

__all__ = ["explain"]


@click.command()
@click.argument("queue")
@asking
def explain(ctx: click.Context, workers: Workers, as_json: bool, queue: str) -> None:
    """Say why no message of QUEUE starts now, at each worker that consumes it.

    \b
    no_message  nothing is at the worker: the queue is empty, or its refill is on the way
    no_credit   its credit is used up, and others have their turn
    class       queues of higher classes have messages, and go first
    no_slot     every slot of the pool is busy; it says who has their turn before it
    leash       its rate allows no start yet; the answer says when it will
    cap         as many of its tasks run as may (max_in_flight)
    paused      an operator has paused it
    keys        what waits is of keys that may start none now: `fair keys` says which
    suspended   the broker has taken it away; it is tried again
    starting    nothing holds it back

    \b
    Examples:
      celery -A shop fair explain bulk
      celery -A shop fair explain bulk --json -d celery@host1

    Exit status: 0; 1 if a worker answers with an error or no worker answers.
    """
    answers = workers.ask("fair_explain", queue=queue)
    show(ctx, answers, as_json, lambda answer: f"{queue}: {answer['text']}")
