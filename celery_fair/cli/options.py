"""What more than one command takes, and how a command ends: JSON or text, and its exit status."""

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from celery_fair.operate.text import escaped

COUNT = click.IntRange(0)


class Named(click.Path):
    """A path that is not empty."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":  # it would be the folder where the command was started
            self.fail("it is empty: give a path, or . for this folder", param, ctx)
        return super().convert(value, param, ctx)


class NewFile(Named):
    """A file to write: what cannot be written is told at once, and not when the work is done."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        folder = path.absolute().parent
        is_file = path.is_file() or not path.exists()  # not /dev/stdout, say
        if is_file and not os.access(folder, os.W_OK | os.X_OK):
            said = f"there is no folder {folder} that this user may write in: make it, or let it"
            self.fail(f"{said}, or name another", param, ctx)
        return path


FOLDER = Named(file_okay=False, path_type=Path)
NEW_FILE = NewFile(dir_okay=False, writable=True, path_type=Path)


class Number(click.FloatRange):
    """A finite number, within bounds, if there are any."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):  # a range lets nan pass, and one without an end infinity
            self.fail(f"{value!r} is no finite number: give one in digits", param, ctx)
        return number


class Seconds(Number):
    """A time, within bounds."""

    name = "seconds"


NUMBER = Number()
SECONDS = Seconds(0, min_open=True)
INTERVAL = Seconds(0.001)
"""Over which something is summed up: of shorter ones there would be more than can be counted."""


def the_app() -> Any:
    """Return the app that ``celery -A`` was given; without one, say how."""
    ctx = click.get_current_context()
    if ctx.obj is not None:
        return ctx.obj.app
    words = ctx.command_path.removeprefix(ctx.find_root().command_path).strip()
    raise click.UsageError(  # not through Celery
        f"{words} is about an app and its workers: celery -A app fair {words}"
    )


class Outcome(NamedTuple):
    """What a command has found.

    Attributes:
        document: for ``--json``.
        lines: the same for a reader.
        good: whether the exit status is 0, not 1.
        remarks: lines for standard error, also beside a document.
    """

    document: Any
    lines: Iterable[str]
    good: bool = True
    remarks: Iterable[str] = ()


C = TypeVar("C", bound=Callable[..., Any])


def parsed_by(parse: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return an option's callback: what `parse` makes of it, or its `ValueError` as a refusal."""

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            return None if value is None else parse(value)
        except ValueError as exc:
            raise click.BadParameter(str(exc), ctx, param) from exc

    return callback


def timeout_option(bounds: Seconds, text: str) -> Callable[[C], C]:
    """How long workers are waited for; see `click.option`."""
    return click.option("-t", "--timeout", type=bounds, default=1.0, help=text)


def json_option(text: str) -> Callable[[C], C]:
    """Return the option ``--json``, which is passed as `as_json`."""
    return click.option("-j", "--json", "as_json", is_flag=True, help=text)


def outcome(text: str) -> Callable[[Callable[..., Outcome]], Callable[..., None]]:
    """Give a command that returns its `Outcome` the option ``--json``, and `conclude` it."""

    def concluding(command: Callable[..., Outcome]) -> Callable[..., None]:
        @json_option(text)
        @wraps(command)
        def wrapped(*args: Any, as_json: bool, **options: Any) -> None:
            conclude(command(*args, **options), as_json)

        return wrapped

    return concluding


def conclude(found: Outcome, as_json: bool) -> None:
    """Print an outcome, and exit with the status that tells it."""
    display(found, as_json, indent=2)
    click.get_current_context().exit(0 if found.good else 1)


def display(found: Outcome, as_json: bool, indent: int | None = None) -> None:
    """Print an outcome; as JSON on one line, if nothing is indented."""
    if as_json:
        click.echo(json.dumps(_plain(found.document), indent=indent, default=str, allow_nan=False))
    else:
        for line in found.lines:
            click.echo(line)
    for line in found.remarks:
        click.echo(line, err=True)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, which has no infinity: what is not a number is null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]], empty: str) -> Iterator[str]:
    """Return rows in columns, or `empty` where there are none."""
    lines = [list(map(_cell, row)) for row in rows]
    if not lines:
        yield empty
        return
    head, *body = aligned([list(heads), *lines])
    yield click.style(head, bold=True)
    yield from body


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


Rows = list[list[str]]
"""Texts in columns; the first row is the heads."""


def aligned(rows: Rows) -> list[str]:
    """Return rows as lines, escaped, in columns: the first to the left, the others to the right."""
    rows = [list(map(escaped, row)) for row in rows]
    first, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_cells(row, first, others)).rstrip() for row in rows]


def _cells(row: list[str], first: int, others: list[int]) -> Iterator[str]:
    yield row[0].ljust(first)
    yield from map(str.rjust, row[1:], others)
