"""The commands, as a shell sees them."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from celery_fair.cli import fair
from celery_fair.cli.pipeline.context import Context
from celery_fair.pipeline.cells import cell
from celery_fair.pipeline.gold.audit import VERDICTS
from celery_fair.pipeline.warehouse import FORMAT, Warehouse
from tests.pipeline.planted import T0, Logs, Process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(*words: object) -> Result:
    return CliRunner().invoke(fair, ["pipeline", *map(str, words)], catch_exceptions=False)


def test_ingest_and_audit(spark: SparkSession, logs: Logs, tmp_path: Path) -> None:
    worker = Process().boots(0)
    worker.runs("twice", 1)
    worker.runs("twice", 3)
    worker.rejects("clean", 5, published=0)
    worker.says("q", "ready", 6, 2.0)
    worker.says("r", "ready", 6, 2.0)
    worker.runs("keyed", 7, 2.0, published=6.5, cost_key="k", key="acme/42", repeatable=True)
    worker.starts("lost", 9)
    worker.ends(10, "dead")
    logs.plant(worker)
    warehouse = tmp_path / "ware [house]*"

    ingested = run("ingest", logs.folder, warehouse)
    assert ingested.stdout.startswith("version 1: 12 new events from 12 lines of 1 new files")
    assert "reading 1 new files" in ingested.stderr

    ids = tmp_path / "ids"
    words = ("--json", "--ids-out", ids, "--quiet", "--fail-on", "unknown,lost")
    audited = run("audit", warehouse, *words)
    assert audited.exit_code == 1
    assert audited.stderr == ""
    found = json.loads(audited.stdout)
    assert {k: v for k, v in found["verdicts"].items() if v} == {
        "DUPLICATE": 1,
        "LOST": 1,
        "REPLAYABLE": 1,
        "FINISHED": 1,
    }
    assert [attempt["id"] for attempt in found["attempts"]] == ["twice", "lost", "clean"]
    (line,) = ids.read_text().splitlines()
    assert json.loads(line) == {"id": "clean", "retries": 0, "published": T0}

    assert found["more"] == 0
    with patch("celery_fair.pipeline.publish.publish_audit", lambda it, *_: it.table("audit")):
        worst = run("audit", warehouse, "--limit", "1").stdout
        none = run("audit", warehouse, "--verdict", "running").stdout
        by_key = run("audit", warehouse, "--by", "key", "--non-repeatable").stdout
    assert "1 DUPLICATE, 1 LOST, 1 REPLAYABLE, 1 FINISHED" in worst
    assert "twice" in worst
    assert "\nand 2 more: --limit, --verdict\n" in worst
    assert re.search(r"twice +0  DUPLICATE +t +q +2023-11-14 22:13:21Z +– ", worst)
    assert none.startswith("no attempt is listed\n")
    assert "no attempt is of a queue with keys" in by_key
    counted = Warehouse(spark, warehouse).table("audit_by_key").collect()
    assert "acme" in {row["tenant"] for row in counted}

    (q, r) = json.loads(run("fairness", warehouse, "--json").stdout)["queues"]
    assert (q["queue"], q["share"], q["target"], q["verdicts"]) == ("q", 1.0, 0.5, {"FAIR": 1})
    assert (r["queue"], r["share"]) == ("r", 0.0)

    (waits,) = json.loads(run("waits", warehouse, "--json").stdout)
    assert (waits["queue"], waits["started"], waits["timed"], waits["p95"]) == ("q", 3, 1, 0.5)

    assert "q      acme/42        1" in run("waits", warehouse, "--by", "key").stdout
    (first,) = json.loads(run("waits", warehouse, "--first", "--by", "key", "--json").stdout)
    assert (first["key"], first["started"]) == ("acme/42", 1)

    costs = tmp_path / "costs.json"
    shown = run("costs", warehouse, "--export", costs).stdout
    assert "credibility" in shown
    model = json.loads(costs.read_text())
    assert model["v"] == 1
    assert model["keys"]["t"]["k"]["n"] == 1
    late = ("--complete-since", T0 + 100, "--verdict", "unknown", "--json")
    found = json.loads(run("audit", warehouse, *late).stdout)
    assert found["verdicts"] == dict.fromkeys(VERDICTS, 0) | {"DUPLICATE": 1, "UNKNOWN": 3}
    assert {attempt["id"] for attempt in found["attempts"]} == {"lost", "clean", "keyed"}
    changed = Warehouse(spark, warehouse).table("changes").collect()
    unknown = {row["id"] for row in changed if row["verdict"] == "UNKNOWN"}
    assert unknown == {"lost", "clean", "keyed"}


def test_a_doubt_may_have_no_bounds() -> None:
    row = {"since": -math.inf, "until": T0}
    assert (cell(row, "since"), cell(row, "until")) == (None, "2023-11-14 22:13:20Z")


def test_an_interrupt_has_its_exit_status(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """That of whom SIGINT has ended: scripts tell it from a failure."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Context, "warehouse", interrupted)
    ended = run("audit", tmp_path)
    assert (ended.exit_code, ended.stderr) == (130, "Aborted!\n")


@pytest.mark.parametrize("words", [("fairness", "w"), ("report", "w", "r.html")])
def test_an_interval_that_is_too_short(words: tuple[str, ...]) -> None:
    refused = run(*words, "--interval", "1e-9")
    assert refused.exit_code == 2
    assert "0.001" in refused.stderr


def test_what_is_no_warehouse(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    for folder in (tmp_path, tmp_path / "nowhere"):
        refused = run("waits", folder)
        assert refused.exit_code == 1
        assert f"{folder} is no warehouse; fill one first" in refused.stderr


@pytest.mark.wide
def test_a_log_that_is_none(spark: SparkSession, logs: Logs, tmp_path: Path) -> None:
    logs.write("other.jsonl", ['{"some": "other log"}'])
    ingested = run("ingest", logs.folder, tmp_path / "warehouse")
    assert ingested.exit_code == 1
    assert "quarantined: 1 × does not name its version, process and time" in ingested.stdout
    assert Warehouse(spark, tmp_path / "warehouse").table("attempts").isEmpty()


@pytest.mark.wide
def test_an_audit_of_no_attempt(spark: SparkSession, logs: Logs, tmp_path: Path) -> None:
    logs.write("other.jsonl", ['{"some": "other log"}'])
    run("ingest", logs.folder, tmp_path / "warehouse")
    audited = run("audit", tmp_path / "warehouse")
    assert audited.stdout == "no attempt is listed\n"


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999"])
@pytest.mark.parametrize(
    "words",
    [
        ("fairness", "w", "--fail-on-unfair", "--tolerance"),
        ("fairness", "w", "--fail-on-unfair", "--interval"),
        ("report", "w", "r.html", "--interval"),
        ("audit", "w", "--complete-since"),
        ("audit", "w", "--redelivered-within"),
    ],
    ids=lambda words: f"{words[0]} {words[-1]}",
)
def test_what_is_no_finite_number_is_refused(words: tuple[str, ...], value: str) -> None:
    """A tolerance of nan finds nothing unfair; intervals that never end make no table."""
    refused = run(*words, value)
    assert refused.exit_code == 2
    assert f"Invalid value for '{words[-1]}'" in refused.stderr


@pytest.mark.parametrize(
    "words", [("report", "w"), ("audit", "w", "--ids-out"), ("costs", "w", "--export")]
)
def test_what_cannot_be_written_is_told_at_once(
    tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = run(*words, tmp_path / "no" / "file")
    assert nowhere.exit_code == 2
    assert f"there is no folder {tmp_path / 'no'} that this user may write in" in nowhere.stderr
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path)
    refused = run(*words, tmp_path / "file")
    assert refused.exit_code == 2
    assert f"there is no folder {tmp_path} that this user may write in" in refused.stderr


@pytest.mark.parametrize(
    "words", [("ingest", "logs", ""), ("ingest", "", "w"), ("audit", ""), ("report", "w", "")]
)
def test_an_empty_argument_is_no_path(words: tuple[str, ...]) -> None:
    refused = run(*words)
    assert refused.exit_code == 2
    assert "it is empty: give a path, or . for this folder" in refused.stderr


def test_wrong_words(tmp_path: Path, spark: SparkSession) -> None:
    unknown = run("audit", tmp_path, "--fail-on", "broken")
    assert unknown.exit_code == 2
    assert "broken is no verdict; there are duplicate, lost" in unknown.stderr
    lost = {
        "v": FORMAT,
        "version": 1,
        "tables": {"attempts": ["a"]},
        "schemas": {"attempts": "id long"},
    }
    (tmp_path / "current.json").write_text(json.dumps(lost))
    gone = run("waits", tmp_path)
    assert gone.exit_code == 1
    assert "Error: Spark failed: [PATH_NOT_FOUND]" in gone.stderr
    (tmp_path / "current.json").unlink()
    missing = run("audit", tmp_path)
    assert missing.exit_code == 1
    (tmp_path / "logs").mkdir()
    empty = run("ingest", tmp_path / "logs", tmp_path / "warehouse")
    assert empty.exit_code == 1
    assert "logs has no file of an event log" in empty.stderr
    assert "starting Spark" not in empty.stderr
    assert "is no warehouse; fill one first" in missing.stderr
