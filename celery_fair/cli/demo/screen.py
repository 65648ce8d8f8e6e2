"""Where the demo shows what it does, and which way of showing suits that place."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Protocol

import click

from celery_fair.cli.demo.plain import PlainScreen
from celery_fair.cli.demo.run import Progress, Result, Setup
from celery_fair.cli.demo.workload import Workload

__all__ = ["Screen", "suitable_screen"]


class Screen(Protocol):
    """Shows runs: `introduce`, then `begin`, `progress`…, `end` for each, then `conclude`."""

    def introduce(self, setup: Setup, messages: int) -> None: ...
    def begin(self, workload: Workload) -> None: ...
    def progress(self, progress: Progress) -> None: ...
    def end(self, result: Result) -> None: ...
    def close(self) -> None: ...
    def conclude(self, results: Sequence[Result]) -> None: ...


def suitable_screen(json: bool) -> Screen:
    """Return a live screen for a terminal, else a plain one; silent beside JSON.

    With ``--json``, standard output is for the result alone; a terminal on standard error still
    shows the runs.
    """
    stream = sys.stderr if json else sys.stdout
    if stream.isatty() and find_spec("rich"):
        from rich.console import Console

        from celery_fair.cli.demo.live import LiveScreen

        return LiveScreen(Console(stderr=json))
    if json and not stream.isatty():
        return PlainScreen(lambda line: None)
    return PlainScreen(lambda line: click.echo(line, err=json))
