"""The figures as text: the rows and sentences that every output shows."""

from collections.abc import Sequence

from celery_fair.cli.demo.screen import Rows
from celery_fair.cli.demo.waits.scenario import (
    BULK,
    INTERACTIVE,
    MAIL_TAKES,
    NEWSLETTER_TAKES,
    QUANTA,
)
from celery_fair.cli.demo.waits.waits import Run, Waits
from celery_fair.cli.demo.worker import Setup

__all__ = ["comparison", "figures", "introduction", "line", "reason", "sentence", "title"]

_PREFETCHED = 4  # a slot; Celery's worker_prefetch_multiplier


def introduction(setup: Setup, seconds: float) -> str:
    """Return what is about to be done."""
    slots = "1 slot" if setup.concurrency == 1 else f"{setup.concurrency} slots"
    return (
        f"Two workers on {setup.broker}, one after the other: pool {setup.pool} with {slots}, else"
        f" Celery's defaults (prefetch multiplier {_PREFETCHED}). Queue {BULK!r} has a backlog of"
        f" newsletters, {NEWSLETTER_TAKES:g} s each; into queue {INTERACTIVE!r} comes a password"
        f" mail now and then, {MAIL_TAKES:g} s each, for {seconds:g} s. Both workers get the same"
        f" messages at the same moments. The fair one has the quanta {QUANTA[BULK]} and"
        f" {QUANTA[INTERACTIVE]}. A wait is measured from publishing to the start of the task."
    )


def reason(setup: Setup) -> str:
    """Return why Celery's own worker lets mails wait longer, where it does."""
    pool, broker = setup.pool, setup.broker
    if pool == "threads" or (pool == "prefork" and not broker.in_memory):
        return (
            "Celery's own worker has fetched newsletters before a mail arrives, as many as its"
            " prefetch multiplier says, and the mail stands behind them. A fair worker chooses the"
            " next task when a slot is free."
        )
    return (
        "With this pool on this broker Celery's own worker may fetch less ahead than its prefetch"
        " multiplier says; with threads, and on RabbitMQ and Redis with prefork, it fetches that."
    )


def title(worker: str) -> str:
    """Return a worker's name at the beginning of a line."""
    return worker[0].upper() + worker[1:]


def figures(run: Run) -> Rows:
    """Return what has been measured of a run so far, under a row of heads."""
    return [
        ["task", "published", "started", "last wait", "median", "95 %"],
        ["password mail", *_row(run.mails)],
        ["newsletter", *_row(run.newsletters)],
    ]


def _row(waits: Waits) -> list[str]:
    counts = [f"{waits.published:,}", f"{len(waits.ended):,}"]
    if not waits.ended:
        return [*counts, "–", "–", "–"]
    return [*counts, *map(_seconds, (waits.seconds[-1], waits.median, waits.most))]


def line(run: Run) -> str:
    """Return the same in short."""
    mails = run.mails
    last = f", the last after {_seconds(mails.seconds[-1])}" if mails.ended else ""
    return (
        f"password mails: {mails.published:,} published, {len(mails.ended):,} started{last};"
        f" newsletters: {len(run.newsletters.ended):,} started"
    )


def comparison(runs: Sequence[Run], width: int = 16) -> Rows:
    """Return the runs' figures beside each other, with bars, under a row of heads.

    Arguments:
        width: of the longest bar, in characters; without it there are none.
    """
    longest = max(run.mails.median for run in runs)
    bars = [
        ("█" * max(1, round(width * run.mails.median / longest))).ljust(width, "░") for run in runs
    ]
    return [
        ["password mails waited", "median", "95 %", "newsletters meanwhile"] + [""] * bool(width),
        *(
            [
                title(run.worker),
                _seconds(run.mails.median),
                _seconds(run.mails.most),
                f"{run.meanwhile:,}",
                *[bar] * bool(width),
            ]
            for run, bar in zip(runs, bars, strict=True)
        ),
    ]


def sentence(runs: Sequence[Run]) -> str:
    """Return the outcome."""
    celery, fair = (
        f"{_seconds(run.mails.median)} (95 % quantile {_seconds(run.mails.most)})" for run in runs
    )
    return (
        f"Behind the same bulk work a password mail waited {celery} with {runs[0].worker} and"
        f" {fair} with {runs[1].worker}: medians, from publishing to start."
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s"
