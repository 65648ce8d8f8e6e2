"""Runs of a fair worker on ten queues, until the stop: what is said of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from celery_fair.cli.demo.demonstration import Demonstration, Progress
from celery_fair.cli.demo.shares.plot import plot
from celery_fair.cli.demo.shares.published import TABLES
from celery_fair.cli.demo.shares.run import TOLERANCE, Run, Shares
from celery_fair.cli.demo.shares.workload import COST, QUANTA, QUEUES, TARGETS, Workload
from celery_fair.cli.demo.worker import Setup
from celery_fair.cli.screen import Bar, Rows

__all__ = ["SharesDemonstration"]

_LINES = 4
"""Lines of progress for what is published, and again for what is consumed."""


class SharesDemonstration(Demonstration[Run]):
    """Ten queues, one run for each workload."""

    package = "celery_fair.cli.demo.shares"
    queues = QUEUES
    heading = " --shares: shares over time"
    drawn = "Shares over time"
    plot_note = (
        "Each line is one queue's share within a few rounds of the scheduler, some 25th of the run;"
        " its dotted line is the target. The shaded part is left out of the figures."
    )
    note = (
        "Published: the figures that a consumer with equal windows got from the same queues, with"
        " 40,000 messages each and a stop at 200,000. The totals differ, so counts are shown as"
        " shares of their total. Ours leave out the first tenth of the starts, while windows fill;"
        " the published ones leave out nothing. Rates are those of different machines and clients."
    )

    def __init__(
        self, setup: Setup, workloads: Sequence[Workload], event_log: Path | None = None
    ) -> None:
        super().__init__(setup, [Run(workload) for workload in workloads], event_log)
        self.introduction = (
            f"{len(QUEUES)} queues with quanta {QUANTA[0]}, {QUANTA[1]}, … {QUANTA[-1]};"
            f" {workloads[0].messages:,} messages each, of cost {COST}; a {setup.pool} worker with"
            f" concurrency {setup.concurrency} on {setup.broker}."
        )

    def title(self, run: Run) -> str:
        return f"{run.work.work:,} µs of work per task, stop at {run.work.stop:,} starts"

    def progress(self, run: Run) -> Progress:
        counts = len(run.published), len(run.starts)
        totals = run.work.published, run.work.stop
        consuming = counts[0] >= totals[0]
        done, total = counts[consuming], totals[consuming]
        verb = "started" if consuming else "published"
        return Progress(
            bar=Bar("consuming" if consuming else "publishing", done, total),
            line=f"{verb} {done:,} of {total:,}",
            step=sum(_LINES * count // of for count, of in zip(counts, totals, strict=True)),
        )

    def tables(self, run: Run) -> list[Rows]:
        return [_figures(run), _comparison(run)]

    def verdicts(self, runs: Sequence[Run]) -> list[tuple[bool, str]]:
        return [(run.shares.fair, _verdict(run)) for run in runs]

    def plots(self, runs: Sequence[Run]) -> list[str]:
        return [plot(run, self.title(run)) for run in runs]

    def report(self, runs: Sequence[Run]) -> dict[str, Any]:
        return {
            "fair": all(run.shares.fair for run in runs),
            "tolerance": TOLERANCE,
            "cost": COST,
            "event_log": None if self.event_log is None else str(self.event_log),
            "workloads": [_workload(run) for run in runs],
        }


def _figures(run: Run) -> Rows:
    shares, table = run.shares, TABLES.get(run.work.work)
    heads = ["queue", "quantum", "count", "target", "share", "error"]
    return [
        heads + ([f"published ({table.name})", "its error"] if table else []),
        *(
            [
                queue,
                str(QUANTA[number]),
                f"{shares.counts[number]:,}",
                _percent(TARGETS[number]),
                *_share_and_error(shares, number),
                *(_share_and_error(table.shares, number) if table else ()),
            ]
            for number, queue in enumerate(QUEUES)
        ),
    ]


def _share_and_error(shares: Shares, number: int) -> tuple[str, str]:
    if not shares.total:
        return "–", "–"
    return _percent(shares.achieved[number]), f"{100 * shares.errors[number]:+.1f} %"


def _percent(part: float) -> str:
    return f"{100 * part:.2f} %"


def _comparison(run: Run) -> Rows:
    table = TABLES.get(run.work.work)
    ours = ["here", *_summary(run.shares, run.rate)]
    theirs = [[f"published, {table.name}", *_summary(table.shares, table.rate)]] if table else []
    return [["", "largest error", "p9/p0 (ideal 10)", "Jain index", "tasks/s"], ours, *theirs]


def _summary(shares: Shares, rate: float) -> list[str]:
    ratio = "–" if shares.ratio is None else f"{shares.ratio:.2f}"
    return [f"{100 * shares.max_error:.1f} %", ratio, f"{shares.jain:.4f}", f"{rate:,.0f}"]


def _verdict(run: Run) -> str:
    shares = run.shares
    ratio = "p0 got nothing" if shares.ratio is None else f"p9/p0 = {shares.ratio:.2f}"
    coarse = shares.fair and shares.max_error > TOLERANCE
    return (
        f"{'FAIR' if shares.fair else 'NOT FAIR'} at {run.work.work:,} µs:"
        f" max |share/target − 1| = {100 * shares.max_error:.1f} % (allowed:"
        f" {100 * TOLERANCE:g} %{', or one round in so short a run' if coarse else ''}), {ratio}"
    )


def _workload(run: Run) -> dict[str, Any]:
    workload = run.work
    table = TABLES.get(workload.work)
    return {
        "work_us": workload.work,
        "messages_per_queue": workload.messages,
        "published": workload.published,
        "started": len(run.starts),
        "left_out": workload.warm_up,
        "seconds": run.seconds,
        "rate": run.rate,
        "fair": run.shares.fair,
        **_document(run.shares),
        "source": table and {"table": table.name, "rate": table.rate, **_document(table.shares)},
    }


def _document(shares: Shares) -> dict[str, Any]:
    columns = QUEUES, QUANTA, shares.counts, TARGETS, shares.achieved, shares.errors
    return {
        "max_error": shares.max_error,
        "ratio": shares.ratio,
        "jain": shares.jain,
        "queues": [
            dict(zip(("queue", "quantum", "count", "target", "share", "error"), row, strict=True))
            for row in zip(*columns, strict=True)
        ],
    }
