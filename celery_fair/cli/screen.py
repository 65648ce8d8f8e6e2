"""Text and tables, on a terminal that can be drawn over, or as lines."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from importlib.util import find_spec
from math import inf
from typing import NamedTuple

import click

from celery_fair.operate.text import escaped, escaped_lines, width

Rows = list[list[str]]
"""Texts in columns; the first row is the heads."""


class Line(NamedTuple):
    """A line of text, or a paragraph.

    Attributes:
        style: rich's.
        err: whether it belongs on standard error.
    """

    text: str = ""
    style: str = ""
    err: bool = False


class Table(NamedTuple):
    """Rows under their heads.

    Attributes:
        tight: whether to save what room can be saved.
        marked: heads of columns that are to catch the eye.
    """

    rows: Rows
    caption: str = ""
    tight: bool = False
    marked: Collection[str] = ()


class Bar(NamedTuple):
    """How much of something is done."""

    what: str
    done: int
    total: int


Part = Line | Table | Bar


class Screen(ABC):
    """Where parts are shown; `close` it.

    Attributes:
        width: the most characters of a line.
    """

    width = inf

    @abstractmethod
    def show(self, *parts: Part) -> None:
        """Show parts below what is there."""

    def draw(self, *parts: Part, lines: Iterable[Part] = ()) -> None:
        """Show parts in place of those drawn before; where that cannot be, show `lines`."""
        self.show(*lines)

    def close(self) -> None:
        """Leave what was drawn as it is."""


class PlainScreen(Screen):
    """Writes lines of text, without control characters: for pipes and files, and without rich.

    Arguments:
        write: takes one line, without its end, and whether it belongs on standard error.
    """

    def __init__(self, write: Callable[[str, bool], object] | None = None) -> None:
        self._write = write or (lambda text, err: click.echo(text, err=err))

    def show(self, *parts: Part) -> None:
        for part in parts:
            if isinstance(part, Line):
                self._write(escaped_lines(part.text), part.err)
            elif isinstance(part, Table):
                heading = [escaped(part.caption)] if part.caption else []
                for line in [*heading, *(f"  {row}" for row in aligned(part.rows))]:
                    self._write(line, False)


def suitable_screen(plain: Screen, err: bool = False, no_color: bool | None = None) -> Screen:
    """Return a screen that draws, on a terminal and with rich; else `plain`.

    Arguments:
        err: the terminal is to be on standard error.
    """
    if (sys.stderr if err else sys.stdout).isatty() and find_spec("rich"):
        from rich.console import Console

        from celery_fair.cli.drawing import DrawnScreen

        return DrawnScreen(Console(stderr=err, highlight=False, no_color=no_color))
    return plain


def aligned(rows: list[list[str]]) -> list[str]:
    """Return rows as lines, escaped, in columns: the first to the left, the others to the right."""
    rows = [list(map(escaped, row)) for row in rows]
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_cells(row, widths)).rstrip() for row in rows]


def _cells(row: list[str], widths: list[int]) -> Iterator[str]:
    for number, (cell, wide) in enumerate(zip(row, widths, strict=True)):
        blank = " " * (wide - width(cell))
        yield blank + cell if number else cell + blank
