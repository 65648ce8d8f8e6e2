"""``fair pause`` and ``fair resume``."""

import click

from celery_fair.brokers.kept import Keeping
from celery_fair.cli.escaped import escaped
from celery_fair.cli.live.answers import show
from celery_fair.cli.live.keep import forgotten, keep_option, kept_by, say_how_long
from celery_fair.cli.live.options import asking
from celery_fair.cli.live.workers import Workers

__all__ = ["pause", "resume"]


@click.command()
@click.argument("queue")
@keep_option
@asking
def pause(ctx: click.Context, workers: Workers, as_json: bool, queue: str, keep: bool) -> None:
    """Start nothing of QUEUE until it is resumed; what runs goes on.

    Its messages stay where they are, and the other queues share what it leaves. A pause outlasts
    reconnects, but not the worker's restart, and workers that start later do not know of it, unless
    it is kept with --keep, once a worker has paused it: then all that start later do, whichever was
    named with -d; `fair resume` ends that, too.

    \b
    Examples:
      celery -A shop fair pause bulk
      celery -A shop fair pause bulk --keep
      celery -A shop fair pause bulk -d celery@host1

    Exit status: 0; 1 if a worker answers with an error or no worker answers.
    """
    if keep:  # or nothing is done
        kept_by(ctx.obj.app, lambda keeping: keeping.of(queue))
    answers = workers.ask("fair_pause", queue=queue)
    if keep and answers.good:
        kept_by(ctx.obj.app, lambda keeping: keeping.pause(queue, True))
    say_how_long(as_json, keep, bool(answers.good))
    show(ctx, answers, as_json)


@click.command()
@click.argument("queue")
@asking
def resume(ctx: click.Context, workers: Workers, as_json: bool, queue: str) -> None:
    """End a pause of QUEUE, also one that is kept.

    \b
    Example:
      celery -A shop fair resume bulk

    Exit status: 0; 1 if a worker answers with an error or no worker answers.
    """
    try:
        was_kept = forgotten(ctx.obj.app, lambda keeping: _resumed(keeping, queue))
    except click.ClickException as exc:  # workers that run are resumed all the same
        text = f"Note: {exc.message}; is a pause kept there? Say this again"
        click.echo(escaped(text), err=True)
        was_kept = False
    if was_kept and not as_json:
        click.echo(f"{queue}: workers that start later do not find it paused any more", err=True)
    show(ctx, workers.ask("fair_resume", queue=queue), as_json)


def _resumed(keeping: Keeping, queue: str) -> bool:
    was = keeping.of(queue).paused
    if was:
        keeping.pause(queue, False)
    return was
