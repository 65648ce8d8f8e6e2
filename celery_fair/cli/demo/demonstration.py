"""Both runs, one after the other: a line a second while they go, then the figures, or JSON."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import click

from celery_fair.cli.demo.scenario import BULK, INTERACTIVE, QUANTA, TAKES, Run, Waits
from celery_fair.cli.demo.worker import Setup, watched
from celery_fair.cli.options import Rows, aligned

_PREFETCHED = 4  # a slot; Celery's worker_prefetch_multiplier

Say = Callable[[str], object]


def demonstrate(setup: Setup, as_json: bool) -> bool:
    """Show both runs; return whether mails waited less in the second.

    Raises:
        DemoError: there is no result.
    """
    say = (lambda _: None) if as_json else click.echo
    say(introduction(setup))
    runs = [run(setup, fair, say) for fair in (False, True)]
    shorter, sentence = verdict(runs)
    if as_json:
        click.echo(json.dumps(_report(setup, runs), indent=2))
        return shorter
    for line in ("", *aligned(figures(runs)), "", _reason(), ""):
        click.echo(line)
    click.secho(sentence, fg="green" if shorter else "red", bold=True)
    return shorter


def run(setup: Setup, fair: bool, say: Say) -> Run:
    """Let a worker run until all mails have started; clean up, also after an error or Ctrl-C."""
    told = 0
    say(f"\n{_title(Run(setup.scenario, fair))}")
    with watched(setup, fair) as growing:
        for records in growing:
            so_far = Run(setup.scenario, fair, records)
            if int(so_far.seconds) != told:
                told = int(so_far.seconds)
                say(f"  {_progress(so_far)}")
            if so_far.complete:
                break
    return so_far


def verdict(runs: Sequence[Run]) -> tuple[bool, str]:
    """Return whether the second worker's mails waited less, by their medians, and both's waits."""
    celery, fair = (
        f"{_seconds(run.mails.median)} (95 % quantile {_seconds(run.mails.most)})" for run in runs
    )
    return runs[1].mails.median < runs[0].mails.median, (
        f"Behind the same bulk work a password mail waited {celery} with {runs[0].worker} and"
        f" {fair} with {runs[1].worker}: medians, from publishing to start."
    )


def figures(runs: Sequence[Run]) -> Rows:
    """Return the runs' figures beside each other."""
    rows = [["password mails waited", "median", "95 %", "newsletters meanwhile"]]
    for each in runs:
        times = map(_seconds, (each.mails.median, each.mails.most))
        rows.append([_title(each), *times, f"{each.meanwhile:,}"])
    return rows


def introduction(setup: Setup) -> str:
    """Return what is about to be compared."""
    seconds, count = setup.scenario.seconds, setup.scenario.slots
    by = f"the quanta {QUANTA[BULK]} and {QUANTA[INTERACTIVE]}"
    if setup.target:
        by = f"no quanta, but a target for {INTERACTIVE!r}: {setup.target}"
    return (
        f"Two workers on {setup.broker}, one after the other: pool {setup.pool}, {count} tasks at"
        f" once, else Celery's defaults (prefetch multiplier {_PREFETCHED}). Queue {BULK!r} has a"
        f" backlog of newsletters, {TAKES[BULK]:g} s each; into queue {INTERACTIVE!r}"
        f" comes a password mail now and then, {TAKES[INTERACTIVE]:g} s each, for {seconds:g} s."
        f" Both workers get the same messages at the same times. The fair one has {by}. A wait is"
        " measured from publishing to the start of the task."
    )


def _title(run: Run) -> str:
    return run.worker.capitalize()


def _reason() -> str:
    """Return why Celery's own worker lets mails wait longer."""
    return (
        "Celery's own worker has fetched newsletters before a mail arrives, as many as its"
        " prefetch multiplier says, and the mail stands behind them. A fair worker chooses the"
        " next task when a slot is free."
    )


def _progress(run: Run) -> str:
    last = f", the last after {_seconds(run.mails.seconds[-1])}" if run.mails.ended else ""
    return (
        f"password mails: {run.mails.published:,} published, {len(run.mails.ended):,} started"
        f"{last}; newsletters: {len(run.newsletters.ended):,} started"
    )


def _report(setup: Setup, runs: Sequence[Run]) -> dict[str, Any]:
    shorter, sentence = verdict(runs)
    return {
        "broker": str(setup.broker),
        "pool": setup.pool,
        "concurrency": setup.scenario.slots,
        "seconds": setup.scenario.seconds,
        "target": setup.target,
        "shorter": shorter,
        "sentence": sentence,
        "runs": [
            {
                "worker": each.worker,
                "mails": _document(each.mails, each.begin),
                "newsletters": _document(each.newsletters, each.begin),
            }
            for each in runs
        ],
    }


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
