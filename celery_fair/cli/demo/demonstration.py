"""Both runs, beside each other: on the screen while they go, then as a page and as JSON."""

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from celery_fair.cli.demo.broker import DemoError
from celery_fair.cli.demo.page import page
from celery_fair.cli.demo.scenario import (
    BULK,
    INTERACTIVE,
    MAIL_TAKES,
    NEWSLETTER_TAKES,
    QUANTA,
    Run,
    Waits,
)
from celery_fair.cli.demo.worker import Setup, watched
from celery_fair.cli.screen import Bar, Line, PlainScreen, Rows, Screen, Table, suitable_screen

_NARROWEST = 80
"""Columns of a terminal without which a drawn table would lose some of its own."""
_PREFETCHED = 4  # a slot; Celery's worker_prefetch_multiplier
_BAR = 16  # characters of the longest


def demonstrate(setup: Setup, html: Path | None, as_json: bool) -> bool:
    """Show both runs, write their page, print the report; return whether mails waited less.

    Arguments:
        html: where the page goes, if anywhere.

    Raises:
        DemoError: there is no result, or it cannot be written.
    """
    if html is not None and not os.access(html if html.exists() else html.parent, os.W_OK):
        # better refused now than after the runs
        raise DemoError(f"this user may not write --html {html}; name another, or use --no-html")
    event_log = setup.event_log
    if event_log is not None:
        with _writing("--event-log", event_log, "folder, or leave it out"):
            event_log.mkdir(parents=True, exist_ok=True)
    runs = show(setup, suitable(as_json))
    if html is not None:
        with _writing("--html", html, "file, or use --no-html"):
            html.write_text(written(setup, runs), encoding="utf-8")
    shorter, sentence = verdict(runs)
    if as_json:
        report = {
            "html": None if html is None else str(html),
            "event_log": None if event_log is None else str(event_log),
            "broker": str(setup.broker),
            "pool": setup.pool,
            "concurrency": setup.scenario.slots,
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
        _printed(json.dumps(report, indent=2))
    else:
        for what, path in (("Event log", event_log), ("Both runs as a plot", html)):
            if path is not None:
                _printed(f"{what}: {path}")
    return shorter


def suitable(as_json: bool) -> Screen:
    """With ``--json``, standard output is for the result; a terminal may still show the runs."""

    def write(text: str, _: bool) -> None:
        if not as_json:
            _printed(text)
        elif sys.stderr.isatty():
            click.echo(text, err=True)

    return suitable_screen(PlainScreen(write), err=as_json, narrowest=_NARROWEST)


def show(setup: Setup, screen: Screen) -> list[Run]:
    """Show both runs, one after the other, and what they have shown."""
    runs = list[Run]()
    screen.show(Line(_introduction(setup)))
    try:
        for fair in (False, True):
            runs.append(_show(setup, Run(setup.scenario, fair), runs, screen))
        screen.draw(Table(figures(runs)), lines=[Line(), Table(figures(runs))])
    finally:
        screen.close()
    shorter, sentence = verdict(runs)
    screen.show(Line(), Line(_reason(setup), "dim"), Line())
    screen.show(Line(sentence, "bold green" if shorter else "bold red"))
    return runs


def _show(setup: Setup, begun: Run, before: Sequence[Run], screen: Screen) -> Run:
    title = Line(begun.title, "bold")
    screen.draw(Table(figures(before)), title, Line("  it starts …", "dim"), lines=[Line(), title])
    told = 0

    def draw(so_far: Run) -> None:
        nonlocal told
        now = int(so_far.seconds)
        lines = [Line(f"  {_progress(so_far)}")] if now != told else []  # one a second
        told = now
        bar = Bar("mails started", len(so_far.mails.ended), len(so_far.scenario.times))
        screen.draw(Table(figures([*before, so_far])), title, bar, lines=lines)

    return run(setup, begun, draw)


def run(setup: Setup, begun: Run, draw: Callable[[Run], object]) -> Run:
    """Let a worker run until all mails have started; clean up, also after an error or Ctrl-C."""
    so_far = begun
    with watched(setup, begun.fair) as growing:
        for records in growing:
            so_far = replace(begun, records=records)
            draw(so_far)
            if so_far.complete:
                break
    return so_far


def written(setup: Setup, runs: Sequence[Run]) -> str:
    """Return both runs as a page."""
    table = figures(runs, bars=False)
    return page(_introduction(setup), verdict(runs), runs, table, _reason(setup))


def verdict(runs: Sequence[Run]) -> tuple[bool, str]:
    """Return whether the second worker's mails waited less, by their medians, and both's waits."""
    celery, fair = (
        f"{_seconds(run.mails.median)} (95 % quantile {_seconds(run.mails.most)})" for run in runs
    )
    return runs[1].mails.median < runs[0].mails.median, (
        f"Behind the same bulk work a password mail waited {celery} with {runs[0].worker} and"
        f" {fair} with {runs[1].worker}: medians, from publishing to start."
    )


def figures(runs: Sequence[Run], bars: bool = True) -> Rows:
    """Return the runs' figures beside each other, of those whose mails have begun to start."""
    rows = [["password mails waited", "median", "95 %", "newsletters meanwhile"]]
    rows[0] += [""] if bars else []
    waited = [run for run in runs if run.mails.ended]
    for run in waited:
        times = map(_seconds, (run.mails.median, run.mails.most))
        rows.append([run.title, *times, f"{run.meanwhile:,}"])
        if bars:
            longest = max(run.mails.median for run in waited)
            length = max(1, round(_BAR * run.mails.median / longest))
            rows[-1].append(("█" * length).ljust(_BAR, "░"))
    return rows


def _introduction(setup: Setup) -> str:
    seconds, count = setup.scenario.seconds, setup.scenario.slots
    slots = "1 slot" if count == 1 else f"{count} slots"
    return (
        f"Two workers on {setup.broker}, one after the other: pool {setup.pool} with {slots},"
        f" else Celery's defaults (prefetch multiplier {_PREFETCHED}). Queue {BULK!r} has a"
        f" backlog of newsletters, {NEWSLETTER_TAKES:g} s each; into queue {INTERACTIVE!r}"
        f" comes a password mail now and then, {MAIL_TAKES:g} s each, for {seconds:g} s. Both"
        f" workers get the same messages at the same times. The fair one has the quanta"
        f" {QUANTA[BULK]} and {QUANTA[INTERACTIVE]}. A wait is measured from publishing to the"
        " start of the task."
    )


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


def _progress(run: Run) -> str:
    last = f", the last after {_seconds(run.mails.seconds[-1])}" if run.mails.ended else ""
    return (
        f"password mails: {run.mails.published:,} published, {len(run.mails.ended):,} started"
        f"{last}; newsletters: {len(run.newsletters.ended):,} started"
    )


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


@contextmanager
def _writing(option: str, path: Path, other: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise DemoError(
            f"cannot write {option} {path}: {exc.strerror}; name another {other}"
        ) from exc


def _printed(text: str) -> None:
    """Print some text, or explain why that cannot be done: the disk may be full."""
    try:
        click.echo(text)
    except OSError as exc:
        if exc.errno == errno.EPIPE:
            raise  # click ends the command quietly
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is in its buffer
        raise DemoError(f"cannot write to standard output: {exc.strerror}") from exc
