"""Output on a terminal: a table that changes while the worker works. Needs rich."""

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from celery_fair.cli.demo.screen import Picture, Rows
from celery_fair.cli.drawing import drawn

__all__ = ["LiveScreen"]


class LiveScreen:
    """Draws each run in place, and leaves its last picture on the terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._title = ""

    def say(self, text: str = "", style: str = "") -> None:
        """Print some text."""
        self._console.print(Text(text, style=style))

    def begin(self, title: str) -> None:
        """Begin a run."""
        self._title = title
        self._console.print()
        self._live = Live(console=self._console, auto_refresh=False)
        self._live.start()
        self._draw(Text(title, style="bold"), Text("  a worker starts …", style="dim"))

    def show(self, picture: Picture) -> None:
        """Draw how far the run has come."""
        self._draw(_drawn(picture.rows, self._title), _bar(picture))

    def end(self, *tables: Rows) -> None:
        """Leave a run's figures."""
        self._draw(*map(_drawn, tables, [self._title, *[""] * len(tables)]))
        self.close()

    def table(self, rows: Rows) -> None:
        """Print some figures."""
        self._console.print(_drawn(rows))

    def close(self) -> None:
        """Give the terminal back."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _draw(self, *parts: RenderableType) -> None:
        assert self._live is not None
        self._live.update(Group(*parts), refresh=True)


def _drawn(rows: Rows, title: str = "") -> Table:
    # The widest head takes two lines, or the first column would have to give way.
    heads = [head.replace(" (Table ", "\n(Table ") for head in rows[0]]
    return drawn(title, heads, rows[1:])


def _bar(picture: Picture) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=picture.total, completed=picture.done, width=40)
    progress = f"{picture.done:,} of {picture.total:,}"
    grid.add_row(Text(f" {picture.what:10}"), bar, Text(progress))
    return grid
