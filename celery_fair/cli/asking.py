"""What commands that ask workers have in common: whom, for how long, how answers are told."""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

import click

from celery_fair.cli.options import Outcome, Seconds, app_of
from celery_fair.operate.answers import Answers
from celery_fair.operate.text import escaped
from celery_fair.operate.workers import Workers

__all__ = ["answered", "asking", "remarks_on", "view_option"]

T = TypeVar("T")

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


def asking(command: Callable[..., T]) -> Callable[..., T]:
    """Give a command these options; call it with `workers` and its own."""

    @_DESTINATION
    @_TIMEOUT
    @click.pass_context
    @wraps(command)
    def ask(ctx: click.Context, /, **given: Any) -> T:
        names = [name for some in given.pop("destination") for name in some.split(",") if name]
        workers = Workers(app_of(ctx), names, given.pop("timeout"))
        ctx.call_on_close(workers.close)
        return command(workers=workers, **given)

    return ask


def answered(
    answers: Answers,
    line: Callable[[Any], str] = lambda answer: str(answer["ok"]),
    notes: Iterable[str] = (),
) -> Outcome:
    """Return what workers have answered, a line for each."""
    lines = [escaped(f"{worker}: {line(answer)}") for worker, answer in answers.good.items()]
    return Outcome(answers.raw, lines, not answers.errors, [*notes, *remarks_on(answers)])


def remarks_on(answers: Answers) -> list[str]:
    """Return what was not well, or is to be known, for standard error."""
    return [
        *(escaped(f"Note: {worker}: {text}") for worker, text in answers.remarks()),
        *(escaped(f"Error: {worker}: {text}") for worker, text in answers.errors.items()),
    ]
