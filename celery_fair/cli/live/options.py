"""What the commands have in common: whom to ask, how long to wait, in which form to show it."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from celery_fair.cli.live.workers import Workers

__all__ = ["app_of", "asking"]

_DESTINATION = click.option(
    "-d",
    "--destination",
    metavar="WORKER[,WORKER…]",
    multiple=True,
    help="Ask these workers only, such as celery@host.  [default: all]",
)
_TIMEOUT = click.option(
    "-t",
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(0, 3600, min_open=True),
    default=1.0,
    show_default=True,
    help="How long to wait for answers.",
)
_JSON = click.option(
    "-j", "--json", "as_json", is_flag=True, help="Print the answers as JSON, by worker."
)


def asking(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command these options; call it with the context, `workers`, `as_json` and its own."""

    @_DESTINATION
    @_TIMEOUT
    @_JSON
    @click.pass_context
    @wraps(command)
    def ask(ctx: click.Context, /, **given: Any) -> object:
        names = [name for some in given.pop("destination") for name in some.split(",") if name]
        workers = Workers(app_of(ctx), names, given.pop("timeout"))
        ctx.call_on_close(workers.close)
        return command(ctx, workers=workers, **given)

    return ask


def app_of(ctx: click.Context) -> Any:
    """Return the app that ``celery -A`` was given; without one, say how."""
    if ctx.obj is None:  # not through Celery
        raise click.UsageError(
            f"{ctx.info_name} is about an app and its workers: celery -A app fair {ctx.info_name}"
        )
    return ctx.obj.app
