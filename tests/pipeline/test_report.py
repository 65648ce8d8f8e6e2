"""The report, as it is written and as a browser shows it."""

from __future__ import annotations

import json
import random
import re
import struct
import subprocess
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from celery_fair.cli import fair
from celery_fair.pipeline.bronze import RECORD
from celery_fair.pipeline.replay.machine import Machine, Message
from celery_fair.pipeline.replay.scenario import Plan, Scenario
from celery_fair.pipeline.report import figures
from celery_fair.pipeline.report.figures import Figures, first_queues, in_use, nice_interval
from celery_fair.pipeline.report.page import Series, chart, page, templates
from celery_fair.pipeline.warehouse import Warehouse, read_pointer
from tests.chromium import OPTIONS, browser
from tests.documentation.commands import ROOT
from tests.pipeline.planted import T0, Logs, Process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCREENSHOT = ROOT / "var" / "report.png"
SINCE = ("--complete-since", str(T0 + 599))
"""After the day's own messages, before those of which something is to be said."""
QUANTA = {"interactive": 4.0, "bulk": 1.0, "mail": 2.0, "<thumbs> & co": 0.5}


def a_day() -> list[Process]:
    """Ten minutes of a worker with four queues, which things happen to."""
    draw = random.Random(1)
    trace = sorted(
        Message(draw.uniform(0, 400), queue, f"shop.{queue[:4]}", draw.choice("xyz"), 0.5)
        for queue in QUANTA
        for _ in range(500)
    )
    scenario = Scenario("s", queues={queue: Plan(quantum) for queue, quantum in QUANTA.items()})
    worker = Process(node="celery@a", boot="a").boots(-1, quanta=QUANTA)
    for queue, quantum in QUANTA.items():
        worker.says(queue, "ready", 0, quantum)
    left = Counter(message.queue for message in trace)
    for number, (message, at) in enumerate(Machine(scenario).run(trace)):
        fields = {"queue": message.queue, "task": message.task, "cost_key": message.cost_key}
        worker.runs(f"{number}", at, 0.5, published=message.published, **fields)
        left[message.queue] -= 1
        if not left[message.queue]:
            worker.says(message.queue, "empty", at + 0.5, QUANTA[message.queue], depth=0)
    worker.says("bulk", "empty", 1010, QUANTA["bulk"], depth=300)
    worker.says("mail", "throttled", 1020, QUANTA["mail"])
    worker.runs("again", 1030, queue="mail")
    worker.runs("again", 1035, queue="mail")
    for number in range(5):
        worker.rejects(f"letter{number}", 1040, published=600, queue="mail")
    worker.starts("gone", 1050, queue="bulk", published=600)
    worker.ends(1100, "dead")
    return [worker]


class Seen(HTMLParser):
    """Which elements there are, and what they refer to."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.references += [value or "" for name, value in attrs if name in {"src", "href"}]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, spark: object) -> Path:
    folder = tmp_path_factory.mktemp("report")
    logs = Logs(folder / "logs")
    idle = Process(node="celery@a", parent="a", boot="idle", queue="none").boots(0)
    idle.runs("keyed", 0.5, 0.1, queue="none", cost_key="k", key="acme/42", repeatable=True)
    idle.ends(1)
    logs.plant(*a_day())
    logs.write(f"1-n-{idle.pid}-idle-0.jsonl", [*idle.lines, "garbage"])
    for words in (
        ("ingest", logs.folder, folder / "warehouse"),
        ("waits", folder / "warehouse", "--by", "key"),
        ("waits", folder / "warehouse", "--by", "key", "--first"),
        ("report", folder / "warehouse", folder / "report.html", "--json", *SINCE),
    ):
        done = CliRunner().invoke(fair, ["pipeline", *map(str, words), "--quiet"])
        assert done.exit_code == 0, done.output[:2000]
    told = json.loads(done.stdout)
    assert told["path"] == str(folder / "report.html")
    wanted = {"DUPLICATE": 1, "LOST": 1, "REPLAYABLE": 5, "UNKNOWN": 2001}
    assert {verdict: count for verdict, count in told["verdicts"].items() if count} == wanted
    return folder / "report.html"


def test_each_table_is_documented(spark: SparkSession, written: Path) -> None:
    """With the columns that the documentation lists, and no others are published."""
    warehouse = Warehouse(spark, written.parent / "warehouse")
    rows = (ROOT / "docs" / "how-to" / "history.md").read_text().rpartition("|---|---|---|")[2]
    documented = dict(re.findall(r"^\| `(\w+)` \|[^|]*\|(.*)\|$", rows, re.MULTILINE))
    assert documented.keys() == read_pointer(warehouse.root).tables.keys()
    for name, columns in documented.items():
        fields = warehouse.table(name).schema.fields
        if name == "events":
            fields = [field for field in fields if field.name not in RECORD]
        listed = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in fields)
        assert columns.strip() == listed, name


def test_everything_is_in_it(written: Path) -> None:
    text = written.read_text()
    assert len(text) < 2 << 20
    seen = Seen()
    seen.feed(text)
    assert seen.tags["svg"] == 4
    assert seen.references == []
    assert "<script" not in text
    assert "url(" not in text
    for said in (
        "Started twice: 1.",
        "Started and lost: 1.",
        "What became of 2,001 of them is not known: see below.",
        "Unfair: 0 keys of queues that are shared by key.",
        "&lt;thumbs&gt; &amp; co",
        "<td>REPLAYABLE</td><td>5</td>",
        "<td>quarantined: torn or no JSON</td><td>1</td>",
        "<td>incomplete</td><td>1</td>",  # the process whose line that is
        "<td>again</td><td>DUPLICATE</td><td>mail</td>",
        "judged in intervals of 60 s",  # as `fairness` does, however short the log
        "Drawn in intervals of 10 s.",
    ):
        assert said in text
    assert "<thumbs>" not in text


@pytest.mark.wide
def test_browser_shows_it(written: Path, tmp_path: Path) -> None:
    SCREENSHOT.parent.mkdir(exist_ok=True)
    SCREENSHOT.unlink(missing_ok=True)
    subprocess.run(
        [
            browser(),
            *OPTIONS,
            f"--user-data-dir={tmp_path}",
            "--window-size=1000,3600",
            f"--screenshot={SCREENSHOT}",
            written.as_uri(),
        ],
        check=True,
        timeout=100,
        capture_output=True,
    )
    picture = SCREENSHOT.read_bytes()
    assert struct.unpack(">II", picture[16:24]) == (1000, 3600)
    # An empty page of this size has some 15 kB.
    assert len(picture) > 100_000


def test_chart_places_points_and_breaks_lines() -> None:
    points = [(0.0, 0.0), (10.0, 1.0), (100.0, 0.5)]
    drawn = chart([Series("a&b", points)], gap=15.0)
    assert drawn is not None
    # From 48 to 848 across, and from 272 up to 12.
    line = "M48.0,272.0L48.0,272.0L128.0,12.0M848.0,142.0L848.0,142.0"
    assert drawn["lines"] == [("a&b", line, "")]
    assert "<title>a&amp;b</title>" in parts().lines(drawn, "label", 1, 1)
    assert chart([], 1.0) is None


def parts() -> Any:
    """The template's macros."""
    return templates().get_template("parts.html").module


def test_bars_are_to_scale() -> None:
    drawn = parts().bars([("a", [30.0, 10.0]), ("b", [0.0, 20.0])], ("x", "y"), "label", "s")
    assert [part.split('"')[0] for part in drawn.split('width="')[1:]] == [
        "465.0",
        "155.0",
        "0.0",
        "310.0",
    ]
    assert "<svg" not in parts().bars([("a", [0.0])], ("x",), "label", "s")


def test_interval_is_a_round_number() -> None:
    assert [nice_interval(each) for each in (0, 120, 121, 3600, 86400)] == [1, 1, 2, 30, 1800]


def shown(**given: Any) -> Figures:
    """What a report over nothing shows, but for what is given."""
    lists = ("queues", "shares", "waits", "troubles", "letters", "capacity", "costs", "quarantine")
    none: dict[str, Any] = {name: [] for name in lists}
    processes = dict.fromkeys(("processes", "incomplete", "missing", "dropped", "silent"), 0)
    numbers = {"since": 0.0, "until": 1.0, "interval": 1.0, "drawn": 1.0, "judged": 0}
    numbers |= {"unfair": 0, "started": 0}
    verdicts = {"DUPLICATE": 0, "LOST": 0, "UNKNOWN": 0}
    known = {**none, **numbers, "verdicts": verdicts, "processes": processes, "by_key": None}
    return known | given


def test_a_queue_that_gets_nothing_is_among_those_shown(spark: SparkSession) -> None:
    """However many others there are, which got more."""
    others = [(f"q{number:02}", 10.0 + number, 0.0, "FAIR") for number in range(12)]
    unfair = [("starved", 0.0, -1.0, "UNFAIR"), ("loud", 99.0, 0.5, "UNFAIR")]
    rows = spark.createDataFrame(
        [*others, *unfair], "queue string, seconds double, deviation double, verdict string"
    )
    queues, judged, of_all = first_queues(rows)
    assert [queue["queue"] for queue in queues][:4] == ["starved", "loud", "q11", "q10"]
    assert (len(queues), judged, of_all) == (12, 14, 2)


@pytest.mark.wide
def test_what_is_left_out_is_told() -> None:
    text = page(shown(judged=14, unfair=1))
    assert "Unfair: 1 of 14 queues." in text
    assert "0 of 14 queues are shown: the unfair ones first" in text
    assert "0 of 20 queues are shown: those that started most." in page(shown(started=20))
    assert "are shown" not in page(shown())


@pytest.mark.wide
def test_a_chart_shows_all_of_the_time(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In wider intervals, if there are too many of the others."""
    monkeypatch.setattr(figures, "_DRAWN", 4)
    rows = [(at * 0.1, at * 0.1 + 0.1, float(at % 2), 2.0) for at in range(12)]
    table = spark.createDataFrame(
        rows, "since double, until double, busy_seconds double, slot_seconds double"
    )
    points = in_use(table, 0.3)
    assert [row["since"] for row in points] == pytest.approx([0.0, 0.3, 0.6, 0.9])
    assert [row["utilisation"] for row in points] == pytest.approx([1 / 6, 2 / 6] * 2)
    assert [row["since"] for row in in_use(table, 0.1)][-1] == pytest.approx(1.1)
    drawn = page(shown(capacity=points, drawn=0.3))
    assert "Drawn in intervals of 0.3 s" in drawn
