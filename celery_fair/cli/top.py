"""``fair top``: what workers' queues get, again and again."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from time import sleep

import click

from celery_fair.cli.interrupt import interruptible
from celery_fair.cli.options import Seconds, display, json_option
from celery_fair.cli.queues import asking, queue_figures, view_option
from celery_fair.cli.rows import draw
from celery_fair.operate.answers import Answers
from celery_fair.operate.errors import NoAnswerError
from celery_fair.operate.workers import Crowd, Workers

_HINT = "Shares are of the last ten seconds. Ctrl-C ends."


@click.command()
@click.option(
    "--interval",
    type=Seconds(0.1, 3600),
    default=1.0,
    help="Time between two pictures.",
)
@click.option("-n", "--count", metavar="N", type=click.IntRange(1), help="End after N pictures.")
@view_option
@json_option("Print each picture as a line of JSON.")
@asking
def top(
    workers: Workers,
    as_json: bool,
    by: str | None,
    interval: float,
    count: int | None,
) -> None:
    """Watch the queues of all workers; Ctrl-C ends it.

    It shows what `status` shows.

    Where standard output is no terminal, each picture is printed below the one before, under its
    time; with --json, as one line of JSON. What is wrong is told on standard error, as `status`
    tells it.

    \b
    Examples:
      celery -A shop fair top
      celery -A shop fair top --by worker -d celery@host1 --interval 5
      celery -A shop fair top --count 3 > shares.txt

    Exit status: 0; 1 if no worker answers at the beginning or, in the last of --count pictures, a
    worker answers with an error or none answers.
    """
    drawn, by_worker = sys.stdout.isatty() and not as_json, by == "worker"
    with suppress(KeyboardInterrupt), interruptible():
        for number, answers in enumerate(_answers(workers), 1):
            found = queue_figures(workers, answers, by_worker)
            time = datetime.now().astimezone().isoformat(" ", "seconds")
            view = "workers" if by_worker else "queues"
            document = {"time": time, view: found.document, "errors": answers.errors}
            if drawn:
                draw([*found.lines, *found.remarks, _HINT])
            else:
                display(found._replace(document=document, lines=[time, *found.lines, ""]), as_json)
            if number == count:
                click.get_current_context().exit(0 if found.good else 1)
            sleep(interval)


def _answers(workers: Workers) -> Iterator[Answers]:
    """Yield what workers answer; raise only if nobody does at the beginning."""
    crowd = Crowd(workers)
    answers = crowd.status()
    while True:
        yield answers
        try:
            answers = crowd.status()
        except NoAnswerError as exc:  # perhaps the broker is restarted, or the last worker
            answers = Answers(errors={"all": str(exc)})
