"""Where workers are shown: a terminal, as lines, as JSON."""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.util import find_spec
from typing import Any, Protocol

import click

from celery_fair.cli.columns import aligned
from celery_fair.cli.live.figures import Row
from celery_fair.cli.live.tables import table

__all__ = ["JsonScreen", "PlainScreen", "Screen", "Shown", "suitable_screen"]

Shown = Mapping[str, Sequence[Row]]
"""By worker."""


class Screen(Protocol):
    """Shows rows, once or again and again; `close` it."""

    def show(self, workers: Shown, trouble: Sequence[str] = ()) -> None: ...
    def close(self) -> None: ...


def suitable_screen(columns: Sequence[str], live: bool, as_json: bool, colour: bool) -> Screen:
    """Return the screen that suits standard output.

    Arguments:
        live: it is to change in place, if it can.
    """
    if as_json:
        return JsonScreen(live)
    if sys.stdout.isatty() and find_spec("rich"):
        from celery_fair.cli.live.picture import LiveScreen, PrintedScreen

        return (LiveScreen if live else PrintedScreen)(columns, colour)
    return PlainScreen(columns, live)


class PlainScreen:
    """Lines of text, without control characters; those of one moment under its time."""

    def __init__(self, columns: Sequence[str], timed: bool) -> None:
        self._columns = columns
        self._timed = timed

    def show(self, workers: Shown, trouble: Sequence[str] = ()) -> None:
        """Print each worker's queues."""
        if self._timed:
            click.echo(datetime.now().astimezone().isoformat(" ", "seconds"))
        for worker, rows in workers.items():
            click.echo(worker if rows else f"{worker}: consumes no queue")
            for line in aligned(table(self._columns, rows)):
                click.echo(f"  {line}")
        for line in trouble:
            click.echo(f"Error: {line}", err=True)
        if self._timed:
            click.echo()
        sys.stdout.flush()

    def close(self) -> None:
        """Nothing is held."""


class JsonScreen:
    """JSON: by worker and queue; one line for each moment if there are several."""

    def __init__(self, timed: bool) -> None:
        self._timed = timed

    def show(self, workers: Shown, trouble: Sequence[str] = ()) -> None:
        """Print the figures."""
        figures = {
            worker: {row.queue: self._figures(row) for row in rows}
            for worker, rows in workers.items()
        }
        if self._timed:
            moment = {"time": datetime.now().astimezone().isoformat(), "workers": figures}
            click.echo(json.dumps(moment | ({"errors": list(trouble)} if trouble else {})))
        else:
            click.echo(json.dumps(figures, indent=2))
        sys.stdout.flush()

    def close(self) -> None:
        """Nothing is held."""

    def _figures(self, row: Row) -> dict[str, Any]:
        return {**row.figures, **({"per_second": row.per_second} if self._timed else {})}
