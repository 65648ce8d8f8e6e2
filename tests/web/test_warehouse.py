"""Past days, from a warehouse's tables: what is summed up, and what is said where they are not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from celery_fair.cli import fair
from celery_fair.pipeline.warehouse import Pointer
from celery_fair.web.command import web
from celery_fair.web.pages.warehouse import warehouse_lines, warehouse_part
from celery_fair.web.past import Past, Span, read_past
from celery_fair.web.past_shares import shares_by_step
from celery_fair.web.reads import Reads
from celery_fair.web.site import Site
from celery_fair.web.warehouse_history import WarehouseHistory
from tests.web.visit import Visit, site_of

NOW = 1_763_720_040.0
HOUR = 3600.0
HOSTILE = "<img src=x onerror=alert(1)>\u202e"


def interval(
    queue: str, served: float, due: float, ago: float = 60, verdict: str = "FAIR"
) -> dict[str, Any]:
    since = NOW - ago
    return {
        "queue": queue,
        "since": since,
        "until": since + 60,
        "served": served,
        "due": due,
        "total": 10.0,
        "verdict": verdict,
    }


def attempt(id_: str, queue: str, wait: float | None, ago: float = 30) -> dict[str, Any]:
    return {"id": id_, "queue": queue, "started_at": NOW - ago, "wait": wait}


def fill(root: Path, version: int, tables: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
    """Publish a version: of each table the rows of each run."""
    for name, runs in tables.items():
        for run, rows in runs.items():
            folder = root / name / f"run={run}"
            folder.mkdir(parents=True, exist_ok=True)
            if rows:
                pq.write_table(pa.Table.from_pylist(list(rows)), folder / "part-0.parquet")
    folders = {name: [f"{name}/run={run}" for run in runs] for name, runs in tables.items()}
    pointer = {"v": 1, "version": version, "tables": folders, "schemas": {}}
    (root / f"current-{version:06d}.json").write_text(json.dumps(pointer))


def looked(root: Path, length: float = HOUR, until: float | None = None) -> Past:
    return WarehouseHistory(root).look(Span(length, until))


def test_shares_and_waits_of_a_time(tmp_path: Path) -> None:
    """Of all that was contended in it; an attempt that was made anew counts once."""
    judged = [
        interval("mail", 2, 5, 120, "UNFAIR"),
        interval("mail", 4, 5),
        interval("bulk", 8, 5, 120),
        interval("bulk", 6, 5),
        interval("bulk", 9, 0, 2 * HOUR),
    ]
    old = [attempt("a", "mail", 9.0), attempt("b", "mail", 1.0), attempt("c", "mail", -1.0)]
    new = [attempt("a", "mail", 3.0), attempt("d", "mail", None), attempt("e", "bulk", 8, 9 * HOUR)]
    tables = {
        "fairness": {"000002-a": judged},
        "attempts": {"000001-a": old, "000002-a": new},
        "replaced": {"000002-a": [{"stale": "000001-a", "id": "a"}]},
    }
    fill(tmp_path, 2, tables)
    past = looked(tmp_path)
    assert past.trouble == ""
    assert (past.version, past.since, past.until) == (2, NOW - HOUR, NOW)
    assert list(past.queues) == ["bulk", "mail"]
    mail = past.queues["mail"]
    assert (mail.share, mail.target, mail.started) == (0.3, 0.5, 4)
    assert mail.verdicts == {"UNFAIR": 1, "FAIR": 1}
    assert [(each.since, each.share) for each in mail.worst] == [(NOW - 120, 0.2)]
    assert mail.lines["share"][-2:] == [0.2, 0.4]
    assert mail.lines["target"][-3:] == [None, 0.5, 0.5]
    assert mail.median == pytest.approx(1.0)
    assert mail.lines["p95"][-1] == pytest.approx(3.0, abs=0.5)
    assert (past.queues["bulk"].share, past.queues["bulk"].started) == (0.7, 0)
    earlier = looked(tmp_path, HOUR, NOW - HOUR)
    assert list(earlier.queues) == ["bulk"]
    week = looked(tmp_path, 7 * 86400)
    assert len(week.times) <= 502
    assert week.queues["bulk"].share == pytest.approx(23 / 30)


def test_what_is_replaced_counts_of_each_run_by_itself(tmp_path: Path) -> None:
    """An id may have been made anew in one run that counts in the next, and in the one after."""
    runs = {
        f"00000{n}-a": [attempt("a", "mail", 1.0), attempt(f"b{n}", "mail", 2.0)] for n in range(3)
    }
    runs["000003-a"] = [attempt("c", "mail", 9.0, 9 * HOUR)]
    stale = [{"stale": f"00000{n}-a", "id": "a"} for n in (0, 1)]
    stale.append({"stale": "000003-a", "id": "c"})
    tables = {
        "fairness": {"000003-a": [interval("mail", 2, 5)]},
        "attempts": runs,
        "replaced": {"000002-a": stale, "000003-a": []},
    }
    fill(tmp_path, 3, tables)
    assert looked(tmp_path).queues["mail"].started == 4
    assert looked(tmp_path, 86400).queues["mail"].started == 4
    assert looked(tmp_path, HOUR, NOW - 8 * HOUR).queues == {}


def test_another_version_is_seen(tmp_path: Path) -> None:
    history = WarehouseHistory(tmp_path)
    fill(tmp_path, 1, {"fairness": {"000001-a": [interval("mail", 2, 5)]}})
    first = history.look(Span(HOUR))
    assert history.look(Span(HOUR)) is first
    fill(tmp_path, 2, {"fairness": {"000002-a": [interval("mail", 4, 5)]}})
    shutil.rmtree(tmp_path / "fairness" / "run=000001-a")
    assert history.look(Span(HOUR)).queues["mail"].share == 0.4


def test_a_warehouse_made_anew_is_seen(tmp_path: Path) -> None:
    """Though its version has the number of the one that was shown."""
    site = site_of({})
    site.warehouse = WarehouseHistory(tmp_path / "warehouse")
    fill(site.warehouse.folder, 1, {"fairness": {"000001-a": [interval("mail", 2, 5)]}})
    state, _ = warehouse_lines(site, {}, None)
    shutil.rmtree(site.warehouse.folder)
    fill(site.warehouse.folder, 1, {"fairness": {"000001-b": [interval("mail", 4, 5)]}})
    _, told = warehouse_lines(site, {}, state)
    assert told["lines"][0][-1] == 0.4
    assert site.warehouse.look(Span(86400)).queues["mail"].share == 0.4


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("size", [1, 9])
def test_a_clock_that_is_ahead_does_not_say_when_the_last_day_is(
    statistics: bool, size: int, tmp_path: Path
) -> None:
    rows = [interval("mail", 2, 5), interval("bulk", 8, 5, -86400), interval("far", 8, 5, -9e9)]
    fill(tmp_path, 1, {"fairness": {"000001-a": rows}})
    file = tmp_path / "fairness/run=000001-a/part-0.parquet"
    pq.write_table(pq.read_table(file), file, size, write_statistics=statistics)

    def last(now: float) -> float:
        return WarehouseHistory(tmp_path, lambda: now).look(Span(HOUR)).until

    assert last(NOW) == last(NOW - 600) == NOW
    assert last(NOW + 86400 - 300) == NOW + 86400 + 60
    assert last(NOW - HOUR) == NOW + 9e9 + 60  # there is nothing else


def test_a_file_without_rows_says_nothing_of_when_that_was(tmp_path: Path) -> None:
    fill(tmp_path, 1, {"fairness": {"000001-a": [interval("mail", 2, 5)]}})
    file = tmp_path / "fairness/run=000001-a/part-0.parquet"
    pq.write_table(pq.read_table(file).slice(0, 0), file.with_name("part-1.parquet"))
    assert looked(tmp_path).until == NOW
    file.unlink()
    assert looked(tmp_path).trouble == "No queue had work in any interval."


def test_an_interval_that_goes_on_is_the_last(tmp_path: Path) -> None:
    """However long it is."""
    day = interval("mail", 2, 5) | {"since": NOW - 60, "until": NOW + 86340}
    fill(tmp_path, 1, {"fairness": {"000001-a": [interval("mail", 2, 5), day]}})
    past = WarehouseHistory(tmp_path, lambda: NOW).look(Span(HOUR))
    assert past.until == NOW + 86340


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Span]:
    """The times that are read from now on."""
    asked: list[Span] = []

    def read(root: Path, pointer: Pointer, span: Span, now: float) -> Past:
        asked.append(span)
        return read_past(root, pointer, span, now)

    monkeypatch.setattr("celery_fair.web.warehouse_history.read_past", read)
    return asked


@pytest.mark.parametrize(("length", "step"), [(HOUR, 60), (86400, 300), (7 * 86400, 1800)])
def test_times_close_by_are_read_once(
    length: float, step: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When they end is rounded up: what was asked for is in it."""
    fill(tmp_path, 1, {"fairness": {"000001-a": [interval("mail", 2, 5)]}})
    history, asked = WarehouseHistory(tmp_path), counted(monkeypatch)
    end = NOW // 1800 * 1800
    for ago in (0, 1, step - 1):
        assert history.look(Span(length, end - ago)).until == end
    assert asked == [Span(length, end)]


def test_who_asks_for_many_times_takes_the_last_day_from_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, 1, {"fairness": {"000001-a": [interval("mail", 2, 5)]}})
    history, asked = WarehouseHistory(tmp_path), counted(monkeypatch)
    first = history.look(Span(HOUR))
    for hours in range(40):
        history.look(Span(HOUR, NOW - hours * HOUR))
    assert history.look(Span(HOUR)) is first
    assert len(asked) == 41
    history.look(Span(HOUR, NOW))
    assert len(asked) == 42


def test_who_asks_while_too_much_is_read_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, 1, {"fairness": {"000001-a": [interval("mail", 2, 5)]}})
    monkeypatch.setattr("celery_fair.web.warehouse_history.Reads", partial(Reads, begun=0))
    assert "ask again in a moment" in looked(tmp_path).trouble


def test_a_failure_is_logged_once_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fill(tmp_path, 1, {"fairness": {"000001-a": [interval("mail", 2, 5)]}})
    history = WarehouseHistory(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("celery_fair.web.past.table_of", lambda *_: tmp_path.read_text())
        for _ in range(2):
            assert "cannot be read: [Errno 21] Is a directory" in history.look(Span(HOUR)).trouble
    assert len(caplog.records) == 1
    assert history.look(Span(HOUR)).trouble == ""


def broken(root: Path) -> None:
    fill(root, 1, {"fairness": {"000001-a": [interval("mail", 2, 5)]}})
    (root / "fairness" / "run=000001-a" / "part-0.parquet").write_bytes(b"PAR1 no more")


def gone(root: Path) -> None:
    fill(root, 1, {"fairness": {"000001-a": [interval("mail", 2, 5)]}})
    shutil.rmtree(root / "fairness")


TROUBLES = {
    "empty": (lambda root: None, "has no version yet"),
    "not judged": (lambda root: fill(root, 1, {"attempts": {"1": []}}), "pipeline fairness"),
    "nothing judged": (lambda root: fill(root, 1, {"fairness": {"1": []}}), "No queue had work"),
    "of another kind": (lambda root: fill(root, 1, {"fairness": {"1": [{"a": 1}]}}), "has no due"),
    "half a pointer": (
        lambda root: (root / "current-09.json").write_text('{"v": 1'),
        "does not say",
    ),
    "a later format": (
        lambda root: (root / "current-09.json").write_text('{"v": 9}'),
        "of format 9",
    ),
    "half a file": (broken, "is broken"),
    "a folder that is gone": (gone, "is gone"),
}


@pytest.mark.parametrize(("make", "said"), TROUBLES.values(), ids=TROUBLES)
def test_what_is_no_warehouse_is_a_sentence(make: Any, said: str, tmp_path: Path) -> None:
    make(tmp_path)
    site = site_of({})
    site.warehouse = WarehouseHistory(tmp_path)
    answer = Visit(site).get("/warehouse")
    assert answer.status_code == 200
    assert said in answer.text
    assert "more" not in looked(tmp_path).trouble.rpartition("log has")[2]


def test_a_folder_of_others_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, 1, {"fairness": {"000001-a": [interval("mail", 2, 5)]}})
    monkeypatch.setattr("celery_fair.web.tables.os.access", lambda *_: False)
    assert "Permission denied" in looked(tmp_path).trouble


def test_the_page_is_text_and_leads_to_why(tmp_path: Path) -> None:
    site = site_of({})
    assert "--warehouse FOLDER" in Visit(site).get("/warehouse").text
    assert warehouse_lines(site, {}, None) == (None, None)
    site.warehouse = WarehouseHistory(tmp_path)
    rows = [interval(HOSTILE, 2, 5, verdict="HELD"), interval("mail", 8, 5)]
    fill(tmp_path, 1, {"fairness": {"000001-a": rows}})
    visit = Visit(site)
    text = visit.get("/warehouse?span=6h").text
    assert "<img" not in text
    assert "\u202e" not in text
    assert "20.0 %" in text
    assert "queue=mail#why" in text
    why = visit.get("/warehouse?queue=mail").text
    assert "It got its share in each interval" in why
    assert "did not get its share" not in why
    held = visit.request("GET", f"/warehouse?queue={HOSTILE.replace('<', '%3C')}").text
    assert "its own leash or cap held it back" in held
    assert "is no time such as" in visit.get("/warehouse?until=soon&span=9y").text
    state, told = warehouse_lines(site, {"queue": "mail"}, None)
    assert (told["names"], told["lines"][0][-1]) == (["mail"], 0.8)
    json.dumps(told, allow_nan=False)
    assert warehouse_lines(site, {"queue": "mail"}, state) == (state, None)


def visited(folder: Path, asked: str) -> tuple[Site, Any]:
    """A site of one interval in which mail had too little, and its answer for a time."""
    fill(folder, 1, {"fairness": {"000001-a": [interval("mail", 2, 5)]}})
    site = site_of({})
    site.warehouse = WarehouseHistory(folder)
    answer = Visit(site).get(f"/warehouse?{asked}")
    assert answer.status_code == 200
    return site, answer


@pytest.mark.parametrize(
    "asked",
    [
        "until=0001-01-01T00:00",
        "span=30d&until=0001-01-02T00:00",
        "until=9999-12-31T23:59:59-23:59",
        "until=0001-01-01T00:00%2B14:00",
        "until=99999999999d",
    ],
)
def test_a_time_that_no_calendar_has_is_none(asked: str, tmp_path: Path) -> None:
    site, answer = visited(tmp_path, asked)
    assert "is no time such as 2026-01-31T12:00, and is left out" in answer.text
    assert "20.0 %" in answer.text
    query = dict(parse_qsl(asked))
    assert "is left out" in warehouse_part(site, query)["wrong"]  # as /live has it
    assert warehouse_lines(site, query, None)[1]["names"] == ["mail"]


@pytest.mark.parametrize("asked", ["until=0001-01-02T00:00", "until=9999-12-31T23:59:59"])
def test_of_the_first_and_the_last_day_there_is_nothing(asked: str, tmp_path: Path) -> None:
    _, answer = visited(tmp_path, asked)
    assert "No queue had work then" in answer.text


def test_a_clock_gone_mad_does_not_take_the_page_away(tmp_path: Path) -> None:
    fill(tmp_path, 1, {"fairness": {"000001-a": [interval("mail", 2, 5, -1e15)]}})
    site = site_of({})
    site.warehouse = WarehouseHistory(tmp_path)
    answer = Visit(site).get("/warehouse")
    assert answer.status_code == 200
    assert "which no calendar has" in answer.text


def test_the_field_has_the_time_in_utc(tmp_path: Path) -> None:
    site = site_of({})
    site.warehouse = WarehouseHistory(tmp_path)
    visit = Visit(site)
    for asked in ("2026-01-31T12:30:10Z", "2026-01-31T13:30%2B01:00", "2026-01-31T12:30"):
        text = visit.get(f"/warehouse?until={asked}").text
        assert 'type="datetime-local" value="2026-01-31T12:30"' in text
    assert 'type="datetime-local" value=""' in visit.get("/warehouse?until=soon").text


def test_who_is_not_among_the_worst_did_not_get_its_share_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("celery_fair.web.past_shares._OFF", 1)
    rows = [interval("mail", 1, 5, verdict="UNFAIR"), interval("bulk", 4, 5, verdict="UNFAIR")]
    fill(tmp_path, 1, {"fairness": {"000001-a": rows}})
    site = site_of({})
    site.warehouse = WarehouseHistory(tmp_path)
    why = Visit(site).get("/warehouse?queue=bulk").text
    assert "choose a shorter time" in why
    assert "It got its share" not in why


def test_lines_are_made_of_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the largest shares; of the others nothing is told."""
    monkeypatch.setattr("celery_fair.web.past._QUEUES", 2)
    made: list[str] = []

    def by_step(rows: pa.Table, step: float) -> Any:
        made.extend(sorted(set(rows["queue"].to_pylist())))
        return shares_by_step(rows, step)

    monkeypatch.setattr("celery_fair.web.past.shares_by_step", by_step)
    rows = [interval("a", 1, 5), interval("b", 5, 5), interval("c", 5, 5), interval("d", 4, 5)]
    tables = {
        "fairness": {"1": rows},
        "attempts": {"1": [attempt("1", "c", 3.0), attempt("2", "other", 1.0)]},
    }
    fill(tmp_path, 1, tables)
    past = looked(tmp_path)
    assert made == list(past.queues) == ["b", "c"]
    assert past.left_out == 3
    assert past.queues["c"].median == past.queues["c"].lines["median"][-1] == 3.0
    site = site_of({})
    site.warehouse = WarehouseHistory(tmp_path)
    text = Visit(site).get("/warehouse?queue=a").text
    assert "3 queues of the smallest shares are left out" in text
    assert "or it is one of those that are left out" in text


def test_a_start_in_no_queue_is_shown(tmp_path: Path) -> None:
    starts = [attempt("1", "mail", 3.0), attempt("2", "", 1.0)]
    starts.append({**starts[0], "id": "3", "queue": None})
    fill(tmp_path, 1, {"fairness": {"1": [interval("mail", 1, 5)]}, "attempts": {"1": starts}})
    assert looked(tmp_path).queues[""].started == 2


def test_who_was_alone_is_not_off(tmp_path: Path) -> None:
    """Sorted by their intervals: first those of which most did not get their shares."""
    lone = [interval("lone", 9, 9, ago, "ALONE") for ago in (60, 120, 180)]
    off = [interval("off", 1, 5, ago, "UNFAIR") for ago in (60, 120)]
    rows = [*lone, *off, interval("fair", 5, 5), interval("held", 1, 5, verdict="HELD")]
    fill(tmp_path, 1, {"fairness": {"000001-a": rows}})
    site = site_of({})
    site.warehouse = WarehouseHistory(tmp_path)
    listed = warehouse_part(site, {"sort": "-off"})["listing"]
    assert [name for name, _ in listed.rows][:2] == ["off", "held"]


@pytest.mark.parametrize("address", ["s3a://bucket/warehouse", "hdfs://host/x", "file://nas/x"])
def test_an_address_is_refused(address: str) -> None:
    outcome = CliRunner().invoke(fair, ["web", "--warehouse", address])
    assert outcome.exit_code == 2
    assert "is not on this machine: give a path here" in outcome.output


@pytest.mark.parametrize("scheme", ["", "file:", "file://", "file://localhost"])
def test_a_file_is_refused_before_anything_starts(scheme: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    outcome = CliRunner().invoke(fair, ["web", "--warehouse", f"{scheme}{tmp_path / 'file'}"])
    assert outcome.exit_code == 2
    assert f"Directory '{tmp_path / 'file'}' is a file" in outcome.output


@pytest.mark.parametrize("scheme", ["", "file:", "file://", "FILE://localhost"])
def test_a_folder_is_named_as_for_the_pipeline(scheme: str, tmp_path: Path) -> None:
    asked = ["--warehouse", f"{scheme}{tmp_path}"]
    assert web.make_context("web", asked).params["warehouse"] == tmp_path
