"""The last hours, from an event log: what is counted, and how much is read of it."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from time import time
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from celery_fair.cli import fair
from celery_fair.eventlog.packer import pack
from celery_fair.eventlog.records import VERSION
from celery_fair.web.log_collector import LogCollector, LogReader
from tests.web.visit import Visit, site_of

HOSTILE = "<img src=x onerror=alert(1)>\u202e"
NOW = 1_763_720_000.0


def line(queue: str, seq: int, at: float, kind: str = "started", **fields: Any) -> bytes:
    """A record as a worker writes it; times of `fields` in seconds."""
    for name in {"published", "received"} & fields.keys():
        fields[name] = int(fields[name] * 1e6)
    record = {
        "v": VERSION,
        "boot": "b",
        "kind": kind,
        "seq": seq,
        "at": int(at * 1e6),
        "queue": queue,
    }
    return json.dumps(record | fields, separators=(",", ":")).encode()


def minutes(*lines: bytes, **more: Any) -> LogCollector:
    made = LogCollector(Path(), minutes=3, **more)
    made.advance(NOW)
    made.take_in(lines)
    return made


def test_records_of_another_version_are_not_counted() -> None:
    assert not minutes(line("mail", 0, NOW, v=VERSION + 1)).sums()
    assert minutes(line("mail", 0, NOW)).sums()


def test_what_is_counted() -> None:
    """By what was charged; a wait is from publication, if that is known."""
    found = minutes(
        line("mail", 0, NOW, cost=3.0, received=NOW - 0.02, published=NOW - 2.0),
        line("mail", 1, NOW, received=NOW - 0.02),
        line("bulk", 2, NOW, cost=4.0, received=NOW + 5),  # by a clock that is ahead
        line("bulk", 3, NOW, "queue", depth=70),
        line("bulk", 4, NOW, "queue", depth=20),
        line("bulk", 5, NOW - 100_000, cost=99.0),
    )
    assert list(found.sums()) == ["bulk", "mail"]
    assert found.sums()["mail"] | {"median": None, "p95": None} == {
        "starts": 2,
        "share": 0.5,
        "median": None,
        "p95": None,
        "depth": 0,
    }
    assert found.sums()["bulk"]["depth"] == 70
    assert found.sums()["bulk"]["p95"] == pytest.approx(0.005, abs=0.005)
    assert found.sums()["mail"]["median"] == pytest.approx(0.025)
    told = found.history.lines(["mail"], ["share", "per_second"])
    assert told["lines"] == [[None, None, 0.5], [None, None, 0.03333]]
    assert told["times"][-1] <= NOW < told["times"][-1] + 60


def test_no_record_counts_twice() -> None:
    one, two = line("mail", 0, NOW), line("mail", 1, NOW)
    assert minutes(one, two, one, two).sums()["mail"]["starts"] == 2


@pytest.mark.parametrize(
    "record",
    [
        b'{"kind":"started"',
        b'["kind":"started"]',
        line("mail", 0, NOW, cost=float("nan")),
        line("mail", 0, NOW, cost="much"),
        line("mail", 0, NOW, "queue", depth=float("inf")),
        line("mail", 0, NOW, "queue", depth="deep"),
        line("mail", 0, NOW)[:-1] + b',"at":"now"}',
        line("mail", 0, NOW)[:-1] + b',"at":1e999}',
        line("mail", 0, NOW)[:-1] + b',"queue":{"a":1}}',
    ],
)
def test_what_is_no_record_does_no_harm(record: bytes) -> None:
    found = minutes(record, line("bulk", 9, NOW))
    assert found.sums()["bulk"]["starts"] == 1
    told = found.history.lines(found.sums(), ["share", "depth", "median"])
    json.dumps(told, allow_nan=False)


def test_minutes_pass_and_queues_are_forgotten() -> None:
    found = minutes(line("mail", 0, NOW), line("bulk", 1, NOW - 60))
    found.advance(NOW + 60)
    assert found.history.lines(["mail"], ["share"])["lines"] == [[0.0, 1.0, None]]
    found.advance(NOW + 120)
    assert list(found.sums()) == ["mail"]
    found.advance(NOW + 10_000)
    assert len(found.history.ticks) == 3
    assert found.sums() == {}


def test_so_many_queues_have_a_line() -> None:
    found = minutes(*(line(f"q{n}", n, NOW) for n in range(5)), most=2)
    assert set(found.sums()) == {"q0", "q1", "other"}
    assert found.sums()["other"]["starts"] == 3


# What is read -----------------------------------------------------------------


@pytest.fixture
def host(tmp_path: Path) -> Path:
    folder = tmp_path / "host1"
    folder.mkdir()
    return folder


def new(reader: LogReader) -> list[bytes]:
    return [each for lines in reader.chunks(0.0) for each in lines if each]


def test_each_line_is_read_once_also_after_its_file_is_sealed(host: Path) -> None:
    reader = LogReader(host.parent)
    open_ = host / "_open-1-a.jsonl"
    open_.write_bytes(b"one\ntwo\nthr")
    assert new(reader) == [b"one", b"two"]
    with open_.open("ab") as file:
        file.write(b"ee\n")
    open_.rename(host / "1-a.jsonl")
    assert new(reader) == [b"three"]
    assert new(reader) == []


def test_a_pack_is_read_at_first_and_no_more_later(host: Path) -> None:
    sealed = host / "1763719940-celery@host1-4711-5f0c1de2ab-0.jsonl"
    sealed.write_bytes(line("mail", 0, NOW) + b"\n")
    os.utime(sealed, (NOW, NOW))
    reader = LogReader(host.parent)
    assert len(new(reader)) == 1
    assert pack(host) == 1
    assert new(reader) == []
    assert len(new(LogReader(host.parent))) == 1


def test_of_too_much_the_newest_is_read(host: Path) -> None:
    for number in range(5):
        path = host / f"{number}-a.jsonl"
        path.write_bytes(b"%d\n" % number * 50)
        os.utime(path, (NOW + number, NOW + number))
    reader = LogReader(host.parent, most=250)
    assert {*new(reader)} == {b"2", b"3", b"4"}
    assert reader.left_out == 250


@pytest.mark.parametrize("content", [b"", b"no gzip", gzip.compress(b"line\n" * 9, mtime=0)[:-6]])
def test_a_pack_that_is_none(host: Path, content: bytes) -> None:
    (host / "1-b.pack.jsonl.gz").write_bytes(content)
    (host / "2-a.jsonl").write_bytes(b"line\n")
    reader = LogReader(host.parent)
    assert new(reader)[-1] == b"line"
    assert new(reader) == []


# The page ---------------------------------------------------------------------


def test_the_page_is_text_and_says_what_is_missing(host: Path) -> None:
    site = site_of({})
    assert "--event-log FOLDER" in Visit(site).get("/history").text
    site.record = LogCollector(host.parent)
    visit = Visit(site)
    assert "is being read" in visit.get("/history").text
    site.record.read()
    assert "There is no start" in visit.get("/history").text
    now = time()
    lines = [line(HOSTILE, 0, now, cost=3.0), line("mail", 1, now, cost=1.0)]
    (host / "_open-1-a.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    site.record.read()
    text = visit.get("/history").text
    assert "<img" not in text
    assert "\u202e" not in text
    assert "75.0 %" in text
    assert HOSTILE.replace("\u202e", "") not in visit.get(f"/history?q={quote(HOSTILE)}").text


def test_a_folder_that_may_not_be_read_is_said(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = site_of({})
    site.record = LogCollector(host.parent)

    def denied(*_: Any, onerror: Any, **__: Any) -> Any:
        onerror(PermissionError(13, "Permission denied", str(host)))
        return iter(())

    monkeypatch.setattr("os.walk", denied)
    site.record.read()
    assert "Permission denied" in Visit(site).get("/history").text


# Which folder -----------------------------------------------------------------


def test_a_file_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    outcome = CliRunner().invoke(fair, ["web", "--event-log", str(tmp_path / "file")])
    assert outcome.exit_code == 2
    assert f"Directory '{tmp_path / 'file'}' is a file" in outcome.output
