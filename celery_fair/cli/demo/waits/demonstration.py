"""The same messages for two workers: what is said of both runs."""

from collections.abc import Sequence
from typing import Any

from celery_fair.cli.demo.demonstration import Demonstration, Progress
from celery_fair.cli.demo.waits.plot import plots
from celery_fair.cli.demo.waits.run import Run, Waits
from celery_fair.cli.demo.waits.scenario import (
    BULK,
    INTERACTIVE,
    MAIL_TAKES,
    NEWSLETTER_TAKES,
    QUANTA,
    Scenario,
)
from celery_fair.cli.demo.worker import Setup
from celery_fair.cli.screen import Bar, Rows

__all__ = ["WaitsDemonstration"]

_PREFETCHED = 4  # a slot; Celery's worker_prefetch_multiplier
_BAR = 16  # characters of the longest


class WaitsDemonstration(Demonstration[Run]):
    """First Celery's own worker, then a fair one."""

    package = "celery_fair.cli.demo.waits"
    queues = tuple(QUANTA)
    heading = ": how long a password mail waits"
    drawn = "Both runs as a plot"
    plot_note = (
        "Each pin is a password mail: where it stands on the axis it was published, and its height"
        " is how long it waited. The dashed line is the median. Each tick below the axis is the"
        " start of a newsletter: bulk work goes on all the time."
    )

    def __init__(self, setup: Setup, seconds: float) -> None:
        scenario = Scenario(seconds, setup.concurrency)
        super().__init__(setup, [Run(scenario, fair) for fair in (False, True)])
        self.note = _reason(setup)
        slots = "1 slot" if setup.concurrency == 1 else f"{setup.concurrency} slots"
        self.introduction = (
            f"Two workers on {setup.broker}, one after the other: pool {setup.pool} with {slots},"
            f" else Celery's defaults (prefetch multiplier {_PREFETCHED}). Queue {BULK!r} has a"
            f" backlog of newsletters, {NEWSLETTER_TAKES:g} s each; into queue {INTERACTIVE!r}"
            f" comes a password mail now and then, {MAIL_TAKES:g} s each, for {seconds:g} s. Both"
            f" workers get the same messages at the same times. The fair one has the quanta"
            f" {QUANTA[BULK]} and {QUANTA[INTERACTIVE]}. A wait is measured from publishing to the"
            " start of the task."
        )

    def title(self, run: Run) -> str:
        return run.worker[0].upper() + run.worker[1:]

    def progress(self, run: Run) -> Progress:
        mails, times = run.mails, [when for _, when in run.started]
        last = f", the last after {_seconds(mails.seconds[-1])}" if mails.ended else ""
        return Progress(
            bar=Bar("mails started", len(mails.ended), len(run.work.times)),
            line=f"password mails: {mails.published:,} published, {len(mails.ended):,} started"
            f"{last}; newsletters: {len(run.newsletters.ended):,} started",
            step=int(times[-1] - times[0]) if times else 0,
        )

    def tables(self, run: Run) -> list[Rows]:
        return [
            [
                ["task", "published", "started", "last wait", "median", "95 %"],
                ["password mail", *_row(run.mails)],
                ["newsletter", *_row(run.newsletters)],
            ]
        ]

    def summary(self, runs: Sequence[Run], bars: bool) -> Rows:
        longest = max(run.mails.median for run in runs)
        rows = [["password mails waited", "median", "95 %", "newsletters meanwhile"]]
        for run in runs:
            times = map(_seconds, (run.mails.median, run.mails.most))
            rows.append([self.title(run), *times, f"{run.meanwhile:,}"])
        if bars:
            rows[0].append("")
            for row, run in zip(rows[1:], runs, strict=True):
                length = max(1, round(_BAR * run.mails.median / longest))
                row.append(("█" * length).ljust(_BAR, "░"))
        return rows

    def verdicts(self, runs: Sequence[Run]) -> list[tuple[bool, str]]:
        celery, fair = (
            f"{_seconds(run.mails.median)} (95 % quantile {_seconds(run.mails.most)})"
            for run in runs
        )
        sentence = (
            f"Behind the same bulk work a password mail waited {celery} with {runs[0].worker} and"
            f" {fair} with {runs[1].worker}: medians, from publishing to start."
        )
        return [(runs[1].mails.median < runs[0].mails.median, sentence)]

    def plots(self, runs: Sequence[Run]) -> list[str]:
        return plots(runs)

    def report(self, runs: Sequence[Run]) -> dict[str, Any]:
        ((shorter, sentence),) = self.verdicts(runs)
        return {
            "shorter": shorter,
            "sentence": sentence,
            "runs": [
                {
                    "worker": run.worker,
                    "mails": _document(run.mails, run.begin),
                    "newsletters": _document(run.newsletters, run.begin),
                }
                for run in runs
            ],
        }


def _reason(setup: Setup) -> str:
    """Return why Celery's own worker lets mails wait longer, where it does."""
    if setup.pool == "threads" or (setup.pool == "prefork" and not setup.broker.in_memory):
        return (
            "Celery's own worker has fetched newsletters before a mail arrives, as many as its"
            " prefetch multiplier says, and the mail stands behind them. A fair worker chooses the"
            " next task when a slot is free."
        )
    return (
        "With this pool on this broker Celery's own worker may fetch less ahead than its prefetch"
        " multiplier says; with threads, and on RabbitMQ and Redis with prefork, it fetches that."
    )


def _row(waits: Waits) -> list[str]:
    counts = [f"{waits.published:,}", f"{len(waits.ended):,}"]
    if not waits.ended:
        return [*counts, "–", "–", "–"]
    return [*counts, *map(_seconds, (waits.seconds[-1], waits.median, waits.most))]


def _document(waits: Waits, begin: float) -> dict[str, Any]:
    return {
        "published": waits.published,
        "median": waits.median,
        "quantile_95": waits.most,
        "messages": [
            {"published": each.published - begin, "started": each.started - begin}
            for each in waits.ended
        ],
    }


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s"
