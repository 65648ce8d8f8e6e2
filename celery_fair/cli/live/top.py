"""``fair top``: what workers' queues get, again and again."""

from collections.abc import Iterator
from itertools import chain
from time import monotonic
from typing import NamedTuple

import click

from celery_fair.cli.interrupt import interruptible
from celery_fair.cli.live.answers import Answers, NoAnswer
from celery_fair.cli.live.keys import keys
from celery_fair.cli.live.options import asking
from celery_fair.cli.live.screen import Shown, suitable_screen
from celery_fair.cli.live.tables import LIVE
from celery_fair.cli.live.trend import Trends
from celery_fair.cli.live.workers import Workers

__all__ = ["top"]

_SEARCH = 10
"""Every so many times all workers are asked, not only those known: that takes the whole timeout."""


@click.command()
@click.option(
    "--interval",
    metavar="SECONDS",
    type=click.FloatRange(0.1, 3600),
    default=1.0,
    show_default=True,
    help="From one picture to the next.",
)
@click.option(
    "-n", "--count", metavar="N", type=click.IntRange(1), help="End by itself after N pictures."
)
@asking
def top(
    ctx: click.Context, workers: Workers, as_json: bool, interval: float, count: int | None
) -> None:
    """Watch the queues of all workers; q or Ctrl-C ends it.

    The columns are those of `status`, with two more: a trend of the achieved share, whose bars are
    half high when the queue is on target, and starts per second.

    Where standard output is no terminal, each picture is printed below the one before, under its
    time; with --json, as one line of JSON.

    \b
    Examples:
      celery -A shop fair top
      celery -A shop fair top -d celery@host1 --interval 5
      celery -A shop fair top --count 3 > shares.txt

    Exit status: 0; 1 if a worker answers with an error or no worker answers, at the beginning or
    in the last of --count pictures.
    """
    pictures = _pictures(_Crowd(workers))
    first = next(pictures)
    screen = suitable_screen(LIVE, live=True, as_json=as_json, colour=not ctx.obj.no_color)
    try:
        with interruptible(), keys() as pressed:
            for number, picture in enumerate(chain([first], pictures), 1):
                screen.show(picture.workers, picture.trouble)
                if number == count:
                    ctx.exit(1 if picture.trouble else 0)
                if pressed.wait(picture.since + interval - monotonic()):
                    break
    except KeyboardInterrupt:
        pass
    finally:
        screen.close()


class _Picture(NamedTuple):
    workers: Shown
    trouble: list[str]
    since: float


def _pictures(crowd: "_Crowd") -> Iterator[_Picture]:
    """Yield what there is to see; raise `NoAnswer` only if that is nothing from the beginning."""
    trends = Trends()
    now = monotonic()
    answers, trouble = crowd.ask(), list[str]()
    if not answers.good:
        raise NoAnswer("; ".join(_lines(answers)))
    while True:
        shown = {w: trends.rows(w, queues, monotonic()) for w, queues in answers.good.items()}
        yield _Picture(shown, trouble or _lines(answers), now)
        now, trouble = monotonic(), []
        try:
            answers = crowd.ask()
        except NoAnswer as exc:  # perhaps the broker is restarted, or the last worker
            answers, trouble = Answers({}, {}, {}, {}), [exc.message]


def _lines(answers: Answers) -> list[str]:
    return [f"{worker}: {text}" for worker, text in answers.errors.items()]


class _Crowd:
    """Asks the workers that are known by name, which is answered at once; at times, all."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._known: tuple[str, ...] = ()
        self._asked = 0

    def ask(self) -> Answers:
        """Return the workers' status."""
        named = self._known if self._asked % _SEARCH else ()
        self._asked += 1
        self._known = ()  # should nobody answer
        answers = self._workers.ask("fair_status", named=named)
        self._known = tuple(answers.good)
        return answers
