"""What the demo shows on a terminal, in a pipe, and in its HTML file."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html.parser import HTMLParser
from typing import Any

import pytest
from rich.console import Console

from celery_fair.cli import screen
from celery_fair.cli.demo import demonstration
from celery_fair.cli.demo.demonstration import show, suitable, verdict, written
from celery_fair.cli.demo.scenario import Record
from celery_fair.cli.drawing import DrawnScreen
from celery_fair.cli.screen import PlainScreen, Screen
from tests.demo.demonstration import both, set_up


class Replayed:
    """In place of a worker: the runs' records, half of them and then all."""

    def __init__(self, *recorded: Sequence[Record]) -> None:
        self._recorded = iter(recorded)

    @contextmanager
    def __call__(self, *_: Any) -> Iterator[Iterator[Sequence[Record]]]:
        records = next(self._recorded)
        yield iter([records[: len(records) // 2], records])


def show_waits(monkeypatch: pytest.MonkeyPatch, screen: Screen) -> None:
    """The second run is better."""
    results = both()
    monkeypatch.setattr(demonstration, "watched", Replayed(*(each.records for each in results)))
    good, _ = verdict(show(set_up(results[0]), screen))
    assert good


def drawn(monkeypatch: pytest.MonkeyPatch) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80, color_system=None)
    show_waits(monkeypatch, DrawnScreen(console))
    return stream.getvalue()


def test_live_table_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "\n", drawn(monkeypatch))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text.replace("starts …", "")
    for said in ("Celery's own worker", "password mail", "mails started", "██"):
        assert said in text, text


def test_live_screen_gives_the_terminal_back(monkeypatch: pytest.MonkeyPatch) -> None:
    text = drawn(monkeypatch)
    assert text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l")  # the cursor is shown again


def test_plain_screen_writes_lines_only(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    show_waits(monkeypatch, PlainScreen(lambda line, _: lines.append(line)))
    text = "\n".join(lines)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)
    assert len(lines) < 60
    for said in ("12 published, 12 started, the last after", "waited 0.60 s"):
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


def test_page_is_self_contained() -> None:
    runs = both()
    text = written(set_up(runs[0]), runs)
    elements = Elements(text)
    assert elements.loading == []
    assert not re.search(r"url\(|@import|https?:|\$\w", text)
    assert "prefers-color-scheme: dark" in text
    assert elements.tags.count("svg") == 2
