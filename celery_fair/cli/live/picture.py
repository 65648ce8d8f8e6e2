"""Workers on a terminal. Needs rich."""

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from celery_fair.cli.drawing import drawn
from celery_fair.cli.live.figures import COLUMNS
from celery_fair.cli.live.screen import Shown
from celery_fair.cli.live.tables import fits, table

__all__ = ["LiveScreen", "PrintedScreen"]

_HELD = {COLUMNS["held"].head, COLUMNS["held"].short.head}
_HINT = (
    "Shares are of the last ten seconds; a bar of the trend is half high on target."
    " q or Ctrl-C ends."
)


class PrintedScreen:
    """A table for each worker."""

    def __init__(self, columns: Sequence[str], colour: bool) -> None:
        self._columns = columns
        self._console = Console(highlight=False, no_color=not colour)

    def show(self, workers: Shown, trouble: Sequence[str] = ()) -> None:
        """Print the tables."""
        self._console.print(self._picture(workers, trouble))

    def close(self) -> None:
        """Nothing is held."""

    def _picture(self, workers: Shown, trouble: Sequence[str]) -> Group:
        width = self._console.width
        tables = {w: table(self._columns, rows, width) for w, rows in workers.items() if rows}
        tight = not all(fits(each, width) for each in tables.values())
        parts: list[RenderableType] = [
            _drawn(worker, tables[worker], tight) if rows else _idle(worker)
            for worker, rows in workers.items()
        ]
        return Group(*parts, *(Text(f"Error: {line}", style="bold red") for line in trouble))


class LiveScreen(PrintedScreen):
    """The same tables, drawn in place; the last picture stays."""

    def __init__(self, columns: Sequence[str], colour: bool) -> None:
        super().__init__(columns, colour)
        self._live = Live(console=self._console, auto_refresh=False)
        self._live.start()

    def show(self, workers: Shown, trouble: Sequence[str] = ()) -> None:
        """Draw the tables anew."""
        picture = self._picture(workers, trouble)
        self._live.update(Group(picture, Text(_HINT, style="dim")), refresh=True)

    def close(self) -> None:
        """Give the terminal back."""
        self._live.stop()


def _drawn(worker: str, text: list[list[str]], tight: bool) -> RenderableType:
    heads, *lines = text
    styles = ["yellow" if head in _HELD else "" for head in heads]
    styled = [list(map(Text, line, styles)) for line in lines]
    return drawn(worker, heads, styled, tight)


def _idle(worker: str) -> Text:
    return Text(f"{worker}: consumes no queue", style="bold")
