"""``fair pause`` and ``fair resume``."""

import click

from celery_fair.cli.live.answers import show
from celery_fair.cli.live.options import asking
from celery_fair.cli.live.workers import Workers

__all__ = ["pause", "resume"]


@click.command()
@click.argument("queue")
@asking
def pause(ctx: click.Context, workers: Workers, as_json: bool, queue: str) -> None:
    """Start nothing of QUEUE until it is resumed; what runs goes on.

    Its messages stay where they are, and the other queues share what it leaves. A pause outlasts
    reconnects, but not the worker's restart.

    \b
    Examples:
      celery -A shop fair pause bulk
      celery -A shop fair pause bulk -d celery@host1

    Exit status: 0; 1 if a worker answers with an error or no worker answers.
    """
    show(ctx, workers.ask("fair_pause", queue=queue), as_json)


@click.command()
@click.argument("queue")
@asking
def resume(ctx: click.Context, workers: Workers, as_json: bool, queue: str) -> None:
    """End a pause of QUEUE.

    \b
    Example:
      celery -A shop fair resume bulk

    Exit status: 0; 1 if a worker answers with an error or no worker answers.
    """
    show(ctx, workers.ask("fair_resume", queue=queue), as_json)
