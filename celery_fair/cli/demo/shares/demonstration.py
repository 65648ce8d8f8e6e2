"""Runs of a fair worker on ten queues, until the stop, and what is shown of them."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from celery_fair.cli.demo.demonstrate import writing
from celery_fair.cli.demo.screen import Picture, Screen
from celery_fair.cli.demo.shares import table
from celery_fair.cli.demo.shares.page import page
from celery_fair.cli.demo.shares.report import report
from celery_fair.cli.demo.shares.shares import Result, Shares
from celery_fair.cli.demo.shares.workload import QUEUES, Workload
from celery_fair.cli.demo.tape import Record
from celery_fair.cli.demo.worker import Setup, worker

__all__ = ["SharesDemonstration"]

_LINES = 4
"""Lines of progress for what is published, and again for what is consumed."""


class SharesDemonstration:
    """Ten queues, one run for each workload."""

    page_shows = "Shares over time"

    def __init__(
        self, setup: Setup, workloads: Sequence[Workload], event_log: Path | None = None
    ) -> None:
        self._setup = setup
        self._workloads = workloads
        self._event_log = event_log
        self._results: list[Result] = []

    def run(self, screen: Screen) -> bool:
        """Show all runs; return whether they were fair."""
        if self._event_log is not None:
            with writing("--event-log", self._event_log, "folder, or leave it out"):
                self._event_log.mkdir(parents=True, exist_ok=True)
        screen.say(table.introduction(self._setup, self._workloads[0].messages))
        for workload in self._workloads:
            screen.begin(table.title(workload))
            result = run(self._setup, workload, self._event_log, screen.show)
            rows = table.comparison(workload, result.shares, result.rate)
            screen.end(table.figures(workload, result.shares), rows)
            self._results.append(result)
        self._conclude(screen)
        return all(result.shares.fair for result in self._results)

    def _conclude(self, screen: Screen) -> None:
        screen.say()
        screen.say(table.NOTE, "dim")
        screen.say()
        for result in self._results:
            style = "bold green" if result.shares.fair else "bold red"
            screen.say(table.verdict(result), style)
        if self._event_log is not None:
            screen.say(f"Event log: {self._event_log}")

    def page(self) -> str:
        """Return the HTML file."""
        return page(self._setup, self._results)

    def report(self) -> dict[str, Any]:
        """Return the figures."""
        return report(self._setup, self._results, self._event_log)


def run(
    setup: Setup, workload: Workload, log: Path | None, show: Callable[[Picture], object]
) -> Result:
    """Publish, consume until the stop, and clean up, also after an error or Ctrl-C."""
    tasks = "celery_fair.cli.demo.shares.tasks"
    with worker(setup, tasks, QUEUES, asdict(workload), event_log=log) as child:
        for published, started in child.records():
            starts = started[: workload.stop]
            show(_picture(workload, len(published), starts))
            if len(starts) == workload.stop:
                break
    return Result(workload, starts)


def _picture(workload: Workload, published: int, starts: list[Record]) -> Picture:
    counts = published, len(starts)
    totals = workload.published, workload.stop
    consuming = counts[0] >= totals[0]
    verb = "started" if consuming else "published"
    return Picture(
        rows=table.figures(workload, Shares.of(starts[workload.warm_up :] or starts)),
        what="consuming" if consuming else "publishing",
        done=counts[consuming],
        total=totals[consuming],
        line=f"{verb} {counts[consuming]:,} of {totals[consuming]:,}",
        step=sum(_LINES * count // total for count, total in zip(counts, totals, strict=True)),
    )
