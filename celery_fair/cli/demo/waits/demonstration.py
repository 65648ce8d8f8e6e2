"""A run of each worker, and what is shown of them."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from celery_fair.cli.demo.screen import Picture, Screen
from celery_fair.cli.demo.waits import words
from celery_fair.cli.demo.waits.page import page
from celery_fair.cli.demo.waits.scenario import QUANTA, Scenario
from celery_fair.cli.demo.waits.waits import Run, Waits
from celery_fair.cli.demo.worker import Setup, worker

__all__ = ["WaitsDemonstration"]

_WORKERS = {"Celery's own worker": False, "a fair worker": True}
_TASKS = "celery_fair.cli.demo.waits.tasks"


class WaitsDemonstration:
    """The same messages for two workers."""

    page_shows = "Both runs as a plot"

    def __init__(self, setup: Setup, seconds: float) -> None:
        self._setup = setup
        self._scenario = Scenario(seconds, setup.concurrency)
        self._runs: list[Run] = []

    def run(self, screen: Screen) -> bool:
        """Show both; return whether mails waited less for the fair worker, by their medians."""
        screen.say(words.introduction(self._setup, self._scenario.seconds))
        for name, fair in _WORKERS.items():
            screen.begin(words.title(name))
            self._runs.append(run(self._setup, self._scenario, name, fair, screen.show))
            screen.end(words.figures(self._runs[-1]))
        good = self._good
        screen.say()
        screen.table(words.comparison(self._runs))
        screen.say(words.reason(self._setup), "dim")
        screen.say()
        screen.say(words.sentence(self._runs), "bold green" if good else "bold red")
        return good

    @property
    def _good(self) -> bool:
        celery, fair = self._runs
        return fair.mails.median < celery.mails.median

    def page(self) -> str:
        """Return the HTML file."""
        return page(self._setup, self._runs, self._good)

    def report(self) -> dict[str, Any]:
        """Return the figures, and what they were computed from."""
        return {
            "shorter": self._good,
            "sentence": words.sentence(self._runs),
            "broker": str(self._setup.broker),
            "pool": self._setup.pool,
            "concurrency": self._setup.concurrency,
            "runs": [
                {
                    "worker": run.worker,
                    "mails": _figures(run.mails, run.begin),
                    "newsletters": _figures(run.newsletters, run.begin),
                }
                for run in self._runs
            ],
        }


def _figures(waits: Waits, begin: float) -> dict[str, Any]:
    return {
        "published": waits.published,
        "median": waits.median,
        "quantile_95": waits.most,
        "messages": [
            {"published": each.published - begin, "started": each.started - begin}
            for each in waits.ended
        ],
    }


def run(
    setup: Setup, scenario: Scenario, name: str, fair: bool, show: Callable[[Picture], object]
) -> Run:
    """Publish and consume until the last mail has started, and clean up."""
    with worker(setup, _TASKS, tuple(QUANTA), asdict(scenario), fair) as child:
        for published, started in child.records():
            so_far = Run(name, scenario, published, started)
            show(_picture(so_far))
            if so_far.complete:
                break
    return so_far


def _picture(run: Run) -> Picture:
    moments = [when for _, when in run.started]
    return Picture(
        rows=words.figures(run),
        what="mails started",
        done=len(run.mails.ended),
        total=len(run.scenario.moments),
        line=words.line(run),
        step=int(moments[-1] - moments[0]) if moments else 0,
    )
