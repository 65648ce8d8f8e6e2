"""What the demo shows on a terminal, in a pipe, and in its HTML file."""

from __future__ import annotations

import io
import re
import sys
from html.parser import HTMLParser

import pytest
from rich.console import Console

from celery_fair.cli.demo import screen
from celery_fair.cli.demo.broker import Broker
from celery_fair.cli.demo.live import LiveScreen
from celery_fair.cli.demo.page import page
from celery_fair.cli.demo.plain import PlainScreen
from celery_fair.cli.demo.run import Progress, Setup
from celery_fair.cli.demo.screen import Screen, suitable_screen
from celery_fair.cli.demo.shares import Shares
from celery_fair.cli.demo.workload import QUANTA
from tests.demo.demonstration import fair_result, flat_result

SETUP = Setup(Broker("memory://"), "solo", 1)


def show(shown: Screen) -> None:
    """Two runs, the first of them fair."""
    results = [fair_result(100), flat_result()]
    shown.introduce(SETUP, results[0].workload.messages)
    for result in results:
        workload = result.workload
        shown.begin(workload)
        for published, started in ((workload.published // 3, 0), (workload.published, 300)):
            shares = Shares.of(result.starts[:started])
            shown.progress(Progress(workload, published, started, shares))
        shown.end(result)
    shown.conclude(results)
    shown.close()


def drawn(width: int) -> str:
    stream = io.StringIO()
    show(LiveScreen(Console(file=stream, force_terminal=True, width=width, color_system=None)))
    return stream.getvalue()


def test_live_table_fits_a_terminal() -> None:
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "\n", drawn(80))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text.replace("4, 8, …", "")
    assert "publishing" in text
    assert "consuming" in text
    assert "NOT FAIR at 1 µs" in text


def test_live_screen_gives_the_terminal_back() -> None:
    text = drawn(80)
    assert text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l")  # the cursor is shown again


def test_plain_screen_writes_lines_only() -> None:
    lines: list[str] = []
    show(PlainScreen(lines.append))
    text = "\n".join(lines)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)
    assert len(lines) < 60
    assert "published (Table 1)" in text
    assert "here" in text


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
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr(screen, "find_spec", lambda name: rich or None)
    shown = suitable_screen(json)
    assert isinstance(shown, LiveScreen if terminal and rich else PlainScreen)
    show(shown)
    output = capsys.readouterr()
    assert bool(output.out) == (not json)
    assert bool(output.err) == (json and terminal)


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
    text = page(SETUP, [fair_result(100), flat_result()])
    elements = Elements(text)
    assert elements.loading == []
    assert not re.search(r"url\(|@import|https?:|\$\w", text)
    assert "prefers-color-scheme: dark" in text
    assert elements.tags.count("svg") == 2
    assert elements.tags.count("polyline") == 2 * len(QUANTA)


def test_chart_of_exact_shares_lies_on_its_targets() -> None:
    text = page(SETUP, [fair_result(7)])
    targets = re.findall(r'class="target".*? y1="([\d.]+)"', text)
    lines = [
        set(re.findall(r",([\d.]+)", points)) for points in re.findall(r'points="(.*?)"', text)
    ]
    assert [{f"{float(target):g}"} for target in targets] == lines
    assert 'class="slope"' not in text  # nothing was published for 7 µs
