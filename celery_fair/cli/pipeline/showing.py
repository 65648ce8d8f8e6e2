"""Results on the screen: a table for a reader, JSON for a program."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from celery_fair.cli.columns import aligned

__all__ = ["cell", "rows_of", "show_json", "show_table"]

_NONE = "–"


def show_json(result: Any) -> None:
    """Print one JSON document; what is not a number there is null."""
    click.echo(json.dumps(_plain(result), indent=2, default=str))


def show_table(heads: Sequence[str], rows: Iterable[Sequence[Any]], empty: str) -> None:
    """Print rows in columns, or `empty` where there are none."""
    lines = [[cell(value) for value in row] for row in rows]
    if not lines:
        click.echo(empty)
        return
    head, *body = aligned([list(heads), *lines])
    click.secho(head, bold=True)
    for line in body:
        click.echo(line)


def rows_of(rows: Iterable[Any], names: Sequence[str]) -> list[list[Any]]:
    """Return the named columns of Spark's rows."""
    return [[row[name] for name in names] for row in rows]


def cell(value: Any) -> str:
    """Return a value as it stands in a table."""
    if value is None:
        return _NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
