"""The arithmetic of the waits, and what is made of them."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from celery_fair.cli.demo import demonstration
from celery_fair.cli.demo.demonstration import demonstrate, figures, verdict
from celery_fair.cli.demo.scenario import BULK, TAKES, Record, Run, Scenario
from celery_fair.cli.demo.worker import TraceWriter, new_records
from tests.demo.demonstration import CELERY, both, set_up, waiting
from tests.documentation.commands import ROOT

LONG = [0.5 + 0.01 * number for number in range(21)]
SHORT = [0.001 * number for number in range(21)]


def test_a_wait_is_from_publishing_to_the_start() -> None:
    run = waiting(LONG)
    assert run.mails.seconds == pytest.approx(LONG)
    assert run.mails.median == pytest.approx(0.6)
    assert run.mails.most == pytest.approx(0.69)  # the last but one of twenty-one
    assert run.newsletters.seconds == pytest.approx([0.1 * number for number in range(10)])
    assert run.complete


def test_a_run_is_complete_when_all_mails_have_started() -> None:
    run = waiting(LONG)
    *records, last = run.records
    assert last.is_start
    assert last.number >= run.scenario.newsletters
    assert not Run(run.scenario, False, records).complete


@pytest.mark.parametrize("slots", [1, 2, 16])
@pytest.mark.parametrize("seconds", [1, 3, 60])
def test_newsletters_last_to_the_end(seconds: float, slots: int) -> None:
    scenario = Scenario(seconds, slots)
    times = scenario.times
    assert times == sorted(times)
    assert 0.2 < times[0] <= times[-1] < seconds + 0.15
    assert scenario.newsletters >= 2 * slots * times[-1] / TAKES[BULK]


def test_trace_hands_on_whole_records_only(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    with path.open("x+b", buffering=0) as trace:
        assert new_records(trace) == []
        writer = TraceWriter(str(path))
        writer.write(False, 3)
        writer.write(True, 300_000)
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        assert [record[:2] for record in new_records(trace)] == [(False, 3)]
        path.write_bytes(whole)
        assert [record[:2] for record in new_records(trace)] == [(True, 300_000)]
        assert new_records(trace) == []


def test_one_sentence_tells_both_medians_and_quantiles() -> None:
    good, sentence = verdict(both(LONG, SHORT))
    assert good
    assert re.findall(r"[\d.]+ s", sentence) == ["0.60 s", "0.69 s", "0.01 s", "0.02 s"]
    assert sentence.index(CELERY) < sentence.index("a fair worker")
    assert sentence.count(".") == 5  # one of a sentence, the others of numbers


def test_what_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """While they run, about them, and about the reason."""
    runs = both(LONG, SHORT)
    coming = iter(runs)

    @contextmanager
    def watched(*_: Any) -> Iterator[Iterator[Sequence[Record]]]:
        records = next(coming).records
        yield iter([records[: len(records) // 2], records])

    monkeypatch.setattr(demonstration, "watched", watched)
    assert demonstrate(set_up(runs[0]), as_json=False)
    text = capsys.readouterr().out
    assert "21 published, 21 started, the last after" in text
    assert "newsletters before a mail arrives" in text
    assert verdict(runs)[1] in text
    rows = [line.split("  ") for line in text.splitlines() if line.startswith("A fair worker  ")]
    assert [row[-1].strip() for row in rows] == [figures(runs)[2][-1]]


def test_the_picture_has_both_runs_on_the_same_axes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That of the documentation's first page."""
    runs = both(LONG, SHORT)
    coming = iter(runs)
    monkeypatch.setattr(demonstration, "run", lambda *_: next(coming))
    assert demonstrate(set_up(runs[0]), as_json=True)
    script = runpy.run_path(str(ROOT / "scripts" / "demo_picture.py"))
    text = script["picture"](json.loads(capsys.readouterr().out))
    above, below = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    for plot in (above, below):
        assert plot.count('class="mail"') == len(LONG)
        assert plot.count('class="bulk"') > 1
    axis = r'(class="grid".*?/>|<text.*?</text>)'
    assert re.findall(axis, above) == re.findall(axis, below)
    tops = [[float(y) for y in re.findall(r'cy="([\d.]+)"', plot)] for plot in (above, below)]
    assert max(tops[0]) < min(tops[1])  # a longer wait is drawn higher
    assert verdict(runs)[1] in unescape(text)
    kept = (ROOT / "docs" / "demo-picture.html").read_text()
    for tag in ("<figure", "<svg", "<figcaption", "<p>A fair worker</p>"):
        assert kept.count(tag) == text.count(tag)
