"""Where a demonstration shows what it does, and which way of showing suits that place."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol

from celery_fair.cli.columns import aligned
from celery_fair.cli.demo.errors import printed

__all__ = ["Picture", "PlainScreen", "Rows", "Screen", "suitable_screen"]

Rows = list[list[str]]
"""A table of texts; the first row are its heads."""

_NARROWEST = 80
"""Columns of a terminal without which a drawn table would lose some of its own."""


@dataclass(frozen=True)
class Picture:
    """How far a run has come.

    Attributes:
        rows: the figures so far.
        what: is being done.
        done: of it, out of `total`.
        line: the same in short, for a place that cannot be drawn over.
        step: a line is due when this has changed.
    """

    rows: Rows
    what: str
    done: int
    total: int
    line: str
    step: int


class Screen(Protocol):
    """Shows runs: for each of them `begin`, `show`…, `end`, and text around them."""

    def say(self, text: str = "", style: str = "") -> None: ...
    def begin(self, title: str) -> None: ...
    def show(self, picture: Picture) -> None: ...
    def end(self, *tables: Rows) -> None: ...
    def table(self, rows: Rows) -> None: ...
    def close(self) -> None: ...


class PlainScreen:
    """Writes lines of text, without control characters: for pipes and files, and without rich.

    Arguments:
        write: takes one line, without its end.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._step = 0

    def say(self, text: str = "", style: str = "") -> None:
        """Write some text."""
        self._write(text)

    def begin(self, title: str) -> None:
        """Begin a run."""
        self._step = 0
        self._write("")
        self._write(title)

    def show(self, picture: Picture) -> None:
        """Say how far the run has come, a few times."""
        if picture.step != self._step:
            self._step = picture.step
            self._write(f"  {picture.line}")

    def end(self, *tables: Rows) -> None:
        """Show a run's figures."""
        for rows in tables:
            self._write("")
            self.table(rows)

    def table(self, rows: Rows) -> None:
        """Write some figures."""
        for line in aligned(rows):
            self._write(f"  {line}")

    def close(self) -> None:
        """Nothing is held."""


def suitable_screen(json: bool) -> Screen:
    """Return a live screen for a terminal that is wide enough, else a plain one, or a silent one.

    With ``--json``, standard output is for the result alone; a terminal on standard error still
    shows the runs.
    """
    stream = sys.stderr if json else sys.stdout
    if stream.isatty() and find_spec("rich"):
        from rich.console import Console

        from celery_fair.cli.demo.live import LiveScreen

        console = Console(stderr=json)
        if console.width >= _NARROWEST:
            return LiveScreen(console)
    if json and not stream.isatty():
        return PlainScreen(lambda line: None)
    return PlainScreen(lambda line: printed(line, err=json))
