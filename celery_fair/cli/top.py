"""``fair top``: what workers' queues get, again and again."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from time import monotonic, sleep
from typing import Any, NamedTuple

import click

from celery_fair.cli.interrupt import interruptible
from celery_fair.cli.options import Seconds, dumped, json_option
from celery_fair.cli.queues import asking, view_option
from celery_fair.cli.rows import BY_WORKER, SUMMED, draw, room, tables, title
from celery_fair.operate.answers import NOT_ALONE, Answers
from celery_fair.operate.errors import NoAnswerError
from celery_fair.operate.sums import summed
from celery_fair.operate.text import escaped
from celery_fair.operate.workers import Crowd, Workers

_HINT = "Shares are of the last ten seconds. Ctrl-C ends."


@click.command()
@click.option(
    "--interval",
    type=Seconds(0.1, 3600),
    default=1.0,
    help="Time from one picture to the next.",
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
    time; with --json, as one line of JSON.

    \b
    Examples:
      celery -A shop fair top
      celery -A shop fair top --by worker -d celery@host1 --interval 5
      celery -A shop fair top --count 3 > shares.txt

    Exit status: 0; 1 if a worker answers with an error or no worker answers, at the beginning or
    in the last of --count pictures.
    """
    drawn = sys.stdout.isatty() and not as_json
    with suppress(KeyboardInterrupt), interruptible():
        began = monotonic()
        for number, picture in enumerate(_pictures(workers, by == "worker"), 1):
            if drawn and number == 1:
                click.clear()
            if as_json:
                click.echo(dumped(picture.document()))
            elif drawn:
                draw([*picture.lines(), _HINT])
            else:
                time = datetime.now().astimezone().isoformat(" ", "seconds")
                click.echo("\n".join([time, *picture.lines(), ""]))
            if number == count:
                click.get_current_context().exit(1 if picture.trouble else 0)
            sleep(max(0.0, began + interval - monotonic()))
            began = monotonic()


class Picture(NamedTuple):
    """What there is to see.

    Attributes:
        answers: the workers'.
        trouble: what is wrong, as a line for each worker.
        queues: over all workers; None for a picture of each worker.
    """

    answers: Answers
    trouble: list[str]
    queues: Mapping[str, Any] | None = None

    def lines(self) -> Iterator[str]:
        """Yield it as text."""
        workers = self.answers.good
        if self.queues is None:
            yield from tables(BY_WORKER, workers, room())
        else:
            yield from tables(SUMMED, {title(workers): self.queues}, room())
        if self.answers.others:
            others = ", ".join(f"{worker} ({app})" for worker, app in self.answers.others.items())
            yield escaped(f"Workers of other apps, left out: {others}")
        for worker in sorted(self.answers.twice):
            yield escaped(f"{worker}: {NOT_ALONE}")
        yield from (escaped(f"Error: {line}") for line in self.trouble)

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        found = {
            "time": datetime.now().astimezone().isoformat(),
            "workers": self.answers.good,
            "queues": self.queues,
            "others": self.answers.others,
            "twice": sorted(self.answers.twice),
            "errors": self.trouble,
        }
        return {name: value for name, value in found.items() if value or name == "workers"}


def _pictures(workers: Workers, by_worker: bool) -> Iterator[Picture]:
    """Yield what there is to see; raise only if that is nothing from the beginning."""
    crowd, seen = Crowd(workers), False
    while True:
        trouble = list[str]()
        try:
            answers = crowd.status()
        except NoAnswerError as exc:  # perhaps the broker is restarted, or the last worker
            if not seen:
                raise
            answers, trouble = Answers(), [str(exc)]
        trouble += [f"{worker}: {text}" for worker, text in answers.errors.items()]
        if not (seen or answers.good):
            raise NoAnswerError("; ".join(trouble))
        seen, queues = True, None
        if not by_worker and answers.good:
            queues, silent = summed(workers, answers.good)
            trouble += filter(None, [silent])
        yield Picture(answers, trouble, queues)
