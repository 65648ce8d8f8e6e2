"""Output on a terminal: a table that changes while the worker works. Needs rich."""

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from celery_fair.cli.demo import table
from celery_fair.cli.demo.run import Progress, Result, Setup
from celery_fair.cli.demo.shares import TOLERANCE, Shares
from celery_fair.cli.demo.workload import QUEUES, Workload
from celery_fair.cli.drawing import drawn

__all__ = ["LiveScreen"]

_ERROR = 5  # the column of our errors


class LiveScreen:
    """Draws each run in place, and leaves its last picture on the terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None

    def introduce(self, setup: Setup, messages: int) -> None:
        """Say what is about to be done."""
        self._console.print(table.introduction(setup, messages), highlight=False)

    def begin(self, workload: Workload) -> None:
        """Begin a run."""
        self._console.print()
        self._live = Live(console=self._console, auto_refresh=False)
        self._live.start()
        self.progress(Progress(workload, 0, 0, Shares((0,) * len(QUEUES))))

    def progress(self, progress: Progress) -> None:
        """Draw how far the run has come."""
        assert self._live is not None
        self._live.update(_picture(progress), refresh=True)

    def end(self, result: Result) -> None:
        """Draw a run's figures."""
        assert self._live is not None
        figures = _figures(result.workload, result.shares)
        heads, *rows = table.comparison(result.workload, result.shares, result.rate)
        self._live.update(Group(figures, drawn("", heads, rows)), refresh=True)
        self.close()

    def close(self) -> None:
        """Give the terminal back."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def conclude(self, results: Sequence[Result]) -> None:
        """Give the verdict."""
        self._console.print()
        self._console.print(table.NOTE, style="dim", highlight=False)
        self._console.print()
        for result in results:
            style = "bold green" if result.shares.fair else "bold red"
            self._console.print(Text(table.verdict(result), style=style))


def _picture(progress: Progress) -> RenderableType:
    return Group(_figures(progress.workload, progress.shares), _bar(progress))


def _bar(progress: Progress) -> RenderableType:
    workload = progress.workload
    consuming = progress.published >= workload.published
    what = "consuming" if consuming else "publishing"
    done = progress.started if consuming else progress.published
    total = workload.stop if consuming else workload.published
    grid = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=total, completed=done, width=40)
    grid.add_row(Text(f" {what:10}"), bar, Text(f"{done:,} of {total:,}"))
    return grid


def _figures(workload: Workload, shares: Shares) -> Table:
    rows: list[list[str | Text]] = [list(row) for row in table.rows(workload, shares)]
    for row, error in zip(rows, shares.errors, strict=True):
        row[_ERROR] = Text(str(row[_ERROR]), style=_style(error))
    heads = [h.replace("(Table ", "(Table\N{NO-BREAK SPACE}") for h in table.headings(workload)]
    return drawn(table.title(workload), heads, rows)


def _style(error: float) -> str:
    return "green" if abs(error) <= TOLERANCE else "yellow"
