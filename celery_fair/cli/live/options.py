"""What the commands have in common: whom to ask, how long to wait, how to show the answers."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from celery_fair.cli.connecting import app_of
from celery_fair.cli.live.workers import Workers
from celery_fair.cli.options import Seconds, json_option

__all__ = ["asking", "view_option"]

_DESTINATION = click.option(
    "-d",
    "--destination",
    metavar="WORKER[,WORKER…]",
    multiple=True,
    help="Ask these workers only, such as celery@host.  [default: all]",
)
view_option = click.option(
    "--by",
    type=click.Choice(["queue", "worker"]),
    help="Sum queues over all workers, or show each worker's.  [default: queue]",
)
_TIMEOUT = click.option(
    "-t",
    "--timeout",
    type=Seconds(0, 3600, min_open=True),
    default=1.0,
    help="How long to wait for answers.",
)


def asking(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command these options; call it with the context, `workers`, `as_json` and its own."""

    @_DESTINATION
    @_TIMEOUT
    @json_option("Print the answers as JSON, by worker.")
    @click.pass_context
    @wraps(command)
    def ask(ctx: click.Context, /, **given: Any) -> object:
        names = [name for some in given.pop("destination") for name in some.split(",") if name]
        workers = Workers(app_of(ctx), names, given.pop("timeout"))
        ctx.call_on_close(workers.close)
        return command(ctx, workers=workers, **given)

    return ask
