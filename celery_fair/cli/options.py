"""What more than one command takes, and how a command ends: JSON or text, and its exit status."""

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from celery_fair.cli.screen import Line, aligned

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
        try:
            is_new = not path.exists() or path.is_file()
        except (OSError, ValueError) as exc:
            self.fail(f"{str(path)!r} cannot be looked at: {exc}", param, ctx)
        if not _is_default(param, ctx) and is_new:
            folder = path.resolve().parent
            if not folder.is_dir():
                self.fail(f"there is no folder {folder}: make it, or name another", param, ctx)
            if not os.access(folder, os.W_OK | os.X_OK):
                self.fail(
                    f"this user may not write in {folder}: let it, or name another", param, ctx
                )
        return path


def _is_default(param: click.Parameter | None, ctx: click.Context | None) -> bool:
    """Whether nobody has given it; so it need not be used."""
    if param is None or ctx is None:
        return False
    return ctx.get_parameter_source(param.name) is ParameterSource.DEFAULT


FOLDER = Named(file_okay=False, path_type=Path)
NEW_FILE = NewFile(dir_okay=False, writable=True, path_type=Path)


class Finite(click.types.FloatParamType):
    """A finite number."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):  # a range lets nan pass, and one without an end infinity
            self.fail(f"{value!r} is no finite number: give one in digits", param, ctx)
        return number


class Number(click.FloatRange, Finite):
    """A finite number, within bounds."""

    name = "number"


class Seconds(Number):
    """A time, within bounds."""

    name = "seconds"


NUMBER = Finite()
SECONDS = Seconds(0, min_open=True)
INTERVAL = Seconds(0.001)
"""Over which something is summed up: of shorter ones there would be more than can be counted."""


def the_app() -> Any:
    """Return the app that ``celery -A`` was given; without one, say how."""
    ctx = click.get_current_context()
    if ctx.obj is not None:
        return ctx.obj.app
    words, group = str(ctx.info_name), ctx.parent
    while group is not None and group.parent is not None:
        words, group = f"{group.info_name} {words}", group.parent
    raise click.UsageError(  # not through Celery
        f"{words} is about an app and its workers: celery -A app fair {words}"
    )


class Outcome(NamedTuple):
    """What a command has found.

    Attributes:
        document: for ``--json``.
        lines: the same for a reader; those for standard error are a `Line`.
        good: whether the exit status is 0, not 1.
        remarks: lines for standard error, also beside a document.
    """

    document: Any
    lines: Iterable[str | Line]
    good: bool = True
    remarks: Iterable[str] = ()


C = TypeVar("C", bound=Callable[..., Any])


def moment(seconds: float) -> str:
    """Return a time, in seconds since 1970, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


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
    if as_json:
        click.echo(dumped(found.document, indent=2))
    else:
        for line in found.lines:
            text, err = (line.text, line.err) if isinstance(line, Line) else (line, False)
            click.echo(text, err=err)
    for line in found.remarks:
        click.echo(line, err=True)
    click.get_current_context().exit(0 if found.good else 1)


def dumped(document: Any, indent: int | None = None) -> str:
    """Return a document as JSON, which has no infinity: what is not a number is null."""
    return json.dumps(_plain(document), indent=indent, default=str, allow_nan=False)


def _plain(value: Any) -> Any:
    """What is not a number is null in JSON."""
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
