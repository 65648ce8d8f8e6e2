"""``fair top``: what workers' queues get, again and again, and what has become of it since."""

import os
import sys
import termios
import tty
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import chain
from select import select
from time import monotonic
from typing import Any, NamedTuple

import click

from celery_fair.cli.interrupt import interruptible
from celery_fair.cli.options import Seconds, dumped, json_option
from celery_fair.cli.queues import asking, view_option
from celery_fair.cli.rows import LIVE, SUMMED, Row, Trends, tables, title
from celery_fair.cli.screen import Line, PlainScreen, Screen, suitable_screen
from celery_fair.operate.answers import NOT_ALONE, Answers
from celery_fair.operate.errors import NoAnswerError
from celery_fair.operate.sums import summed
from celery_fair.operate.workers import Crowd, Workers

_END = b"qQ\x04"  # Ctrl-D too

_HINT = (
    "Shares are of the last ten seconds; a bar of the trend is half high on target."
    " q or Ctrl-C ends."
)


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
    """Watch the queues of all workers; q or Ctrl-C ends it.

    The columns are those of `status`, with two more: a trend of the achieved share, whose bars are
    half high when the queue is on target, and starts per second. With --by worker it shows each
    worker's queues.

    What is "empty in" some time has that much less waiting than ten pictures ago; "grows" is what
    has more.

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
    ctx = click.get_current_context()
    pictures = _pictures(Crowd(workers), workers, by == "worker")
    first = next(pictures)
    screen = suitable_screen(PlainScreen(), no_color=ctx.obj.no_color)
    try:
        with interruptible(), _keyboard() as keyboard:
            for number, picture in enumerate(chain([first], pictures), 1):
                picture.print_json() if as_json else picture.draw(screen)
                if number == count:
                    ctx.exit(1 if picture.trouble else 0)
                if _is_ended(keyboard, picture.since + interval):
                    break
    except KeyboardInterrupt:
        pass
    finally:
        screen.close()


class Picture(NamedTuple):
    """What there is to see.

    Attributes:
        trouble: what is wrong, as a line for each worker.
        since: when workers were asked for it, by the monotonic clock.
        queues: over all workers; None for a picture of each worker.
        others: workers of other apps, which are left out, and the names of their apps.
        twice: names that more than one worker has.
    """

    workers: Mapping[str, Sequence[Row]]
    trouble: list[str]
    since: float
    queues: Sequence[Row] | None = None
    others: Mapping[str, str] = {}
    twice: Collection[str] = ()

    def draw(self, screen: Screen) -> None:
        """Draw it in place, or write it below the one before, under its time."""
        trouble = [Line(f"Error: {line}", "bold red", err=True) for line in self.trouble]
        if self.queues is None:
            shown = tables(LIVE, self.workers, screen.width)
        else:
            shown = tables(SUMMED, {title(self.workers): self.queues}, screen.width)
        others = ", ".join(f"{worker} ({app})" for worker, app in self.others.items())
        notes = [Line(f"Workers of other apps, left out: {others}", "dim")] if others else []
        notes += [Line(f"{worker}: {NOT_ALONE}", "yellow") for worker in sorted(self.twice)]
        parts = [*shown, *notes, *trouble]
        time = datetime.now().astimezone().isoformat(" ", "seconds")
        screen.draw(*parts, Line(_HINT, "dim"), lines=[Line(time), *parts, Line()])

    def print_json(self) -> None:
        """Print it as one line of JSON."""
        workers = {
            worker: {row.queue: {**row.figures, "per_second": row.per_second} for row in rows}
            for worker, rows in self.workers.items()
        }
        picture: dict[str, Any] = {"time": datetime.now().astimezone().isoformat()}
        picture["workers"] = workers
        if self.queues is not None:
            picture["queues"] = {row.queue: row.figures for row in self.queues}
        if self.others:
            picture["others"] = self.others
        if self.twice:
            picture["twice"] = sorted(self.twice)
        click.echo(dumped(picture | ({"errors": self.trouble} if self.trouble else {})))


def _pictures(crowd: Crowd, workers: Workers, by_worker: bool) -> Iterator[Picture]:
    """Yield what there is to see; raise only if that is nothing from the beginning."""
    trends = Trends()
    now = monotonic()
    answers, trouble = crowd.status(), list[str]()
    if not answers.good:
        raise NoAnswerError("; ".join(_lines(answers)))
    while True:
        shown = {w: trends.rows(w, queues, monotonic()) for w, queues in answers.good.items()}
        trouble = trouble or _lines(answers)
        queues = None
        if not by_worker and answers.good:
            sums, silent = summed(workers, answers.good)
            queues = trends.sums(sums, monotonic())
            trouble += [silent] if silent else []
        yield Picture(shown, trouble, now, queues, answers.others, answers.twice)
        now, trouble = monotonic(), []
        try:
            answers = crowd.status()
        except NoAnswerError as exc:  # perhaps the broker is restarted, or the last worker
            answers, trouble = Answers(), [str(exc)]


def _lines(answers: Answers) -> list[str]:
    return [f"{worker}: {text}" for worker, text in answers.errors.items()]


@contextmanager
def _keyboard() -> Iterator[list[int]]:
    """Give the terminal, its keys to be read one by one without echo, if there is one."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield []
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield [sys.stdin.fileno()]
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _is_ended(keyboard: list[int], until: float) -> bool:
    """Wait; return True at once when the end is asked for, or the terminal is gone."""
    while (left := until - monotonic()) > 0:
        if select(keyboard, [], [], left)[0]:
            typed = os.read(keyboard[0], 64)
            if not typed or any(key in _END for key in typed):
                return True
    return False
