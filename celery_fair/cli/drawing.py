"""Text and tables drawn on a terminal. Needs rich."""

from collections.abc import Iterable

from rich import table
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from celery_fair.cli.screen import Bar, Line, Part, Screen, Table
from celery_fair.operate.text import escaped, escaped_lines


class DrawnScreen(Screen):
    """Draws in place; the last picture stays on the terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self.width = console.width

    def show(self, *parts: Part) -> None:
        self._console.print(_group(parts))

    def draw(self, *parts: Part, lines: Iterable[Part] = ()) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        self._live.update(_group(parts), refresh=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def _group(parts: Iterable[Part]) -> Group:
    return Group(*map(_drawn, parts))


def _drawn(part: Part) -> RenderableType:
    if isinstance(part, Line):
        return Text(escaped_lines(part.text), style=part.style)
    return _bar(part) if isinstance(part, Bar) else _table(part)


def _bar(bar: Bar) -> RenderableType:
    grid = table.Table.grid(padding=(0, 1))
    drawn = ProgressBar(total=bar.total, completed=bar.done, width=40)
    grid.add_row(Text(f" {bar.what:10}"), drawn, Text(f"{bar.done:,} of {bar.total:,}"))
    return grid


def _table(shown: Table) -> RenderableType:
    """The first column is to the left, and gives way before the others, which are to the right."""
    drawn = table.Table(
        title=Text(escaped(shown.caption)),
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        collapse_padding=True,
        padding=(0, 0 if shown.tight else 1),
        show_edge=not shown.tight,
    )
    heads, *rows = shown.rows
    for number, head in enumerate(heads):
        drawn.add_column(
            head,
            style="yellow" if head in shown.marked else "",
            justify="right" if number else "left",
            overflow="ellipsis" if number else "fold",
            no_wrap=bool(number),
        )
    for row in rows:
        drawn.add_row(*(Text(escaped(cell)) for cell in row))
    return drawn
