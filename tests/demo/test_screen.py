"""What the demo shows on a terminal, in a pipe, and in its HTML file."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from typing import Any

import pytest
from rich.console import Console

from celery_fair.cli import screen
from celery_fair.cli.demo import demonstration
from celery_fair.cli.demo.broker import Broker
from celery_fair.cli.demo.demonstration import page, show, suitable
from celery_fair.cli.demo.shares.demonstration import SharesDemonstration
from celery_fair.cli.demo.shares.run import Run
from celery_fair.cli.demo.shares.workload import QUANTA
from celery_fair.cli.demo.trace import Record
from celery_fair.cli.demo.waits.demonstration import WaitsDemonstration
from celery_fair.cli.demo.worker import Setup
from celery_fair.cli.drawing import DrawnScreen
from celery_fair.cli.screen import PlainScreen, Screen
from tests.demo.demonstration import fair_result, flat_result, waiting


def of_shares(runs: list[Run]) -> SharesDemonstration:
    return SharesDemonstration(Setup(Broker("memory://"), "solo", 1), [run.work for run in runs])


def of_waits(seconds: float) -> WaitsDemonstration:
    return WaitsDemonstration(Setup(Broker("memory://"), "threads", 2), seconds)


RESULTS = [fair_result(100), flat_result()]
LONG, SHORT = [0.5, 0.6, 0.7] * 4, [0.01, 0.02] * 6


class Replayed:
    """In place of a worker: the runs' records, half of them and then all."""

    def __init__(self, *recorded: tuple[list[Record], list[Record]]) -> None:
        self._recorded = iter(recorded)

    @contextmanager
    def __call__(self, *_: Any, **__: Any) -> Iterator[Replayed]:
        self._published, self._started = next(self._recorded)
        yield self

    def records(self) -> Iterator[tuple[list[Record], list[Record]]]:
        yield self._published[: len(self._published) // 3], []
        yield self._published, self._started[: len(self._started) // 2]
        yield self._published, self._started


def show_shares(monkeypatch: pytest.MonkeyPatch, screen: Screen) -> None:
    """Two runs, the first of them fair."""
    recorded = [([(0, 0.0)] * each.work.published, list(each.started)) for each in RESULTS]
    monkeypatch.setattr(demonstration, "worker", Replayed(*recorded))
    shown = of_shares(RESULTS)
    runs = show(shown, screen)
    assert [good for good, _ in shown.verdicts(runs)] == [True, False]


def show_waits(monkeypatch: pytest.MonkeyPatch, screen: Screen) -> None:
    """The second run is better."""
    results = [waiting(LONG, fair=False), waiting(SHORT)]
    recorded = [(list(each.published), list(each.started)) for each in results]
    monkeypatch.setattr(demonstration, "worker", Replayed(*recorded))
    shown = of_waits(results[0].work.seconds)
    runs = show(shown, screen)
    assert [good for good, _ in shown.verdicts(runs)] == [True]


Show = Callable[[pytest.MonkeyPatch, Screen], None]
each_demonstration = pytest.mark.parametrize("show", [show_shares, show_waits])


def drawn(monkeypatch: pytest.MonkeyPatch, show: Show) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80, color_system=None)
    show(monkeypatch, DrawnScreen(console))
    return stream.getvalue()


@each_demonstration
def test_live_table_fits_a_terminal(monkeypatch: pytest.MonkeyPatch, show: Show) -> None:
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "\n", drawn(monkeypatch, show))
    assert max(map(len, text.splitlines())) <= 80
    assert show is show_waits or re.search("  queue +quantum", text)  # not broken
    assert "…" not in text.replace("4, 8, …", "").replace("starts …", "")
    for said in {
        show_shares: ("publishing", "consuming", "NOT FAIR at 1 µs", "here"),
        show_waits: ("Celery's own worker", "password mail", "mails started", "██"),
    }[show]:
        assert said in text, text


@each_demonstration
def test_live_screen_gives_the_terminal_back(monkeypatch: pytest.MonkeyPatch, show: Show) -> None:
    text = drawn(monkeypatch, show)
    assert text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l")  # the cursor is shown again


@each_demonstration
def test_plain_screen_writes_lines_only(monkeypatch: pytest.MonkeyPatch, show: Show) -> None:
    lines: list[str] = []
    show(monkeypatch, PlainScreen(lambda line, _: lines.append(line)))
    text = "\n".join(lines)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)
    assert len(lines) < 60
    for said in {
        show_shares: ("published (Table 1)", "here", "  started 3,300 of 3,300"),
        show_waits: ("12 published, 12 started, the last after", "waited 0.60 s"),
    }[show]:
        assert said in text, text


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("rich", [True, False])
@pytest.mark.parametrize("json", [True, False])
def test_screen_suits_its_place(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    terminal: bool,
    rich: bool,
    json: bool,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr(screen, "find_spec", lambda name: rich or None)
    shown = suitable(json)
    assert isinstance(shown, DrawnScreen if terminal and rich else PlainScreen)
    show_waits(monkeypatch, shown)
    output = capsys.readouterr()
    assert bool(output.out) == (not json)
    assert bool(output.err) == (json and terminal)


@pytest.mark.parametrize(("columns", "kind"), [(40, PlainScreen), (80, DrawnScreen)])
def test_narrow_terminal_gets_lines(
    monkeypatch: pytest.MonkeyPatch, columns: int, kind: type[Screen]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    assert isinstance(suitable(as_json=False), kind)


class Elements(HTMLParser):
    """What a page consists of, and all through which it could load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loading: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag in {"script", "link", "iframe", "object", "embed", "base", "img"}:
            self.loading.append(tag)
        self.loading += [name for name, _ in attrs if name.endswith(("src", "href", "srcset"))]


@pytest.mark.parametrize(
    "text",
    [
        page(of_shares(RESULTS), RESULTS),
        page(of_waits(3), [waiting(LONG, fair=False), waiting(SHORT)]),
    ],
    ids=["shares", "waits"],
)
def test_page_is_self_contained(text: str) -> None:
    elements = Elements(text)
    assert elements.loading == []
    assert not re.search(r"url\(|@import|https?:|\$\w", text)
    assert "prefers-color-scheme: dark" in text
    assert elements.tags.count("svg") == 2


def test_chart_of_exact_shares_lies_on_its_targets() -> None:
    results = [fair_result(7)]
    text = page(of_shares(results), results)
    targets = re.findall(r'class="target".*? y1="([\d.]+)"', text)
    lines = [
        set(re.findall(r",([\d.]+)", points)) for points in re.findall(r'points="(.*?)"', text)
    ]
    assert len(lines) == len(QUANTA)
    assert [{f"{float(target):g}"} for target in targets] == lines
    assert 'class="slope"' not in text  # nothing was published for 7 µs
