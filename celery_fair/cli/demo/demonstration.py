"""A demonstration: runs of workers, shown while they go, then as a page and as JSON.

Each of the demonstrations says what it runs, and turns a run into text, tables and a plot. When
these are shown, and where, is the same for all, and stands here.
"""

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Generic, TypeVar

from celery_fair import html_page
from celery_fair.cli.demo.errors import DemoError, printed
from celery_fair.cli.demo.trace import Record
from celery_fair.cli.demo.worker import Setup, worker
from celery_fair.cli.screen import Bar, Line, PlainScreen, Rows, Screen, Table, suitable_screen

__all__ = ["Demonstration", "Progress", "Run", "demonstrate", "page", "run", "show", "suitable"]

_NARROWEST = 80
"""Columns of a terminal without which a drawn table would lose some of its own."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Attributes:
        bar: what is being done, and how much of it is.
        line: the same in short, for a place that cannot be drawn over.
        step: a line is due when this has changed.
    """

    bar: Bar
    line: str
    step: int


@dataclass(frozen=True)
class Run(ABC):
    """One worker's run, as far as it has come.

    Attributes:
        work: what is published, a dataclass: the worker process is told its fields.
        fair: whether the worker is a fair one.
        published: records of the messages.
        started: records of the tasks.
    """

    work: Any
    fair: bool = True
    published: Sequence[Record] = ()
    started: Sequence[Record] = ()

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether the worker has done enough."""


R = TypeVar("R", bound=Run)


class Demonstration(ABC, Generic[R]):
    """What is run, and what is said and drawn of it.

    Attributes:
        package: where its style sheet is, and its worker's tasks.
        queues: their names without the prefix.
        heading: the page's, after the name of the command.
        drawn: what the page's plots show.
        plot_note: how to read them.
        note: what else there is to know about the figures.
        introduction: what is about to be done.

    Arguments:
        begun: its runs, before they begin.
        event_log: the folder of the workers' event log, if they write one.
    """

    package: str
    queues: Sequence[str]
    heading: str
    drawn: str
    plot_note: str
    note: str
    introduction: str

    def __init__(self, setup: Setup, begun: Sequence[R], event_log: Path | None = None) -> None:
        self.setup = setup
        self.begun = begun
        self.event_log = event_log

    @abstractmethod
    def title(self, run: R) -> str:
        """Return a run's name."""

    @abstractmethod
    def progress(self, run: R) -> Progress:
        """Return how far a run has come."""

    @abstractmethod
    def tables(self, run: R) -> list[Rows]:
        """Return a run's figures; the first table is shown while it goes, too."""

    def summary(self, runs: Sequence[R], bars: bool) -> Rows:
        """Return the runs' figures beside each other, with bars or without, if they compare."""
        return []

    @abstractmethod
    def verdicts(self, runs: Sequence[R]) -> list[tuple[bool, str]]:
        """Return what the runs have shown, and whether that is what they were to show."""

    @abstractmethod
    def plots(self, runs: Sequence[R]) -> list[str]:
        """Return an SVG picture of each run."""

    @abstractmethod
    def report(self, runs: Sequence[R]) -> dict[str, Any]:
        """Return all that the other outputs show, in types of JSON."""


def demonstrate(shown: Demonstration[R], html: Path | None, as_json: bool) -> bool:
    """Show the runs, write their page, print the report; return whether all went as it should."""
    if html is not None:
        _try_to_write(html)  # better refused now than after the runs
    if shown.event_log is not None:
        with _writing("--event-log", shown.event_log, "folder, or leave it out"):
            shown.event_log.mkdir(parents=True, exist_ok=True)
    runs = show(shown, suitable(as_json))
    if html is not None:
        with _writing_page(html):
            html.write_text(page(shown, runs), encoding="utf-8")
    setup = shown.setup
    if as_json:
        report = {
            "html": None if html is None else str(html),
            "broker": str(setup.broker),
            "pool": setup.pool,
            "concurrency": setup.concurrency,
            **shown.report(runs),
        }
        printed(json.dumps(report, indent=2))
    else:
        for what, path in (("Event log", shown.event_log), (shown.drawn, html)):
            if path is not None:
                printed(f"{what}: {path}")
    return all(good for good, _ in shown.verdicts(runs))


def run(shown: Demonstration[R], begun: R, draw: Callable[[R], object]) -> R:
    """Let a worker run until it has done enough, and clean up, also after an error or Ctrl-C."""
    so_far, tasks = begun, f"{shown.package}.tasks"
    told = asdict(begun.work), begun.fair, shown.event_log
    with worker(shown.setup, tasks, shown.queues, *told) as child:
        for published, started in child.records():
            so_far = replace(begun, published=published, started=started)
            draw(so_far)
            if so_far.complete:
                break
    return so_far


def suitable(as_json: bool) -> Screen:
    """With ``--json``, standard output is for the result; a terminal may still show the runs."""
    silent = as_json and not sys.stderr.isatty()
    plain = PlainScreen(lambda text, _: None if silent else printed(text, err=as_json))
    return suitable_screen(plain, err=as_json, narrowest=_NARROWEST)


def show(shown: Demonstration[R], screen: Screen) -> list[R]:
    """Show all runs, one after the other, and what they have shown."""
    screen.show(Line(shown.introduction))
    try:
        runs = [_show(shown, begun, screen) for begun in shown.begun]
    finally:
        screen.close()
    screen.show(Line())
    if summary := shown.summary(runs, bars=True):
        screen.show(Table(summary))
    screen.show(Line(shown.note, "dim"), Line())
    for good, text in shown.verdicts(runs):
        screen.show(Line(text, "bold green" if good else "bold red"))
    return runs


def _show(shown: Demonstration[R], begun: R, screen: Screen) -> R:
    title = Line(shown.title(begun), "bold")
    screen.show(Line())
    screen.draw(title, Line("  a worker starts …", "dim"), lines=[title])
    step = 0

    def draw(so_far: R) -> None:
        nonlocal step
        progress, (rows, *_) = shown.progress(so_far), shown.tables(so_far)
        due = [Line(f"  {progress.line}")] if progress.step != step else []
        step = progress.step
        screen.draw(_table(rows, title.text), progress.bar, lines=due)

    ended = run(shown, begun, draw)
    first, *others = tables = shown.tables(ended)
    screen.draw(
        *(_table(first, title.text), *map(_table, others)),
        lines=[part for rows in tables for part in (Line(), Table(rows))],
    )
    screen.close()
    return ended


def _table(rows: Rows, caption: str = "") -> Table:
    # The widest head takes two lines, or the first column would have to give way.
    heads = [head.replace(" (Table ", "\n(Table ") for head in rows[0]]
    return Table([heads, *rows[1:]], caption)


def page(shown: Demonstration[R], runs: Sequence[R]) -> str:
    """Return the HTML file: everything is in it, nothing is loaded."""
    parts = [html_page.verdict(*verdict) for verdict in shown.verdicts(runs)]
    for each, plot in zip(runs, shown.plots(runs), strict=True):
        parts += [f"<h2>{escape(shown.title(each))}</h2>", plot]
        parts += [html_page.table(heads, rows) for heads, *rows in shown.tables(each)]
    parts.append(f'<p class="note">{escape(shown.plot_note)}</p>')
    if summary := shown.summary(runs, bars=False):
        parts.append(html_page.table(summary[0], summary[1:]))
    parts.append(f'<p class="note">{escape(shown.note)}</p>')
    return html_page.page(
        title=f"celery fair demo{shown.heading}",
        introduction=shown.introduction,
        style=files(shown.package).joinpath("plot.css").read_text(encoding="utf-8"),
        body="\n".join(parts),
    )


@contextmanager
def _writing(option: str, path: Path, other: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise DemoError(
            f"cannot write {option} {path}: {exc.strerror}; name another {other}"
        ) from exc


def _writing_page(path: Path) -> Any:
    return _writing("--html", path, "file, or use --no-html")


def _try_to_write(path: Path) -> None:
    new = not path.exists()
    with _writing_page(path), path.open("ab"):
        pass
    if new:
        path.unlink()
