"""The commands, as a shell sees them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from celery_fair.cli import fair
from tests.pipeline.planted import Logs, Process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(*words: object) -> Result:
    return CliRunner().invoke(fair, ["pipeline", *map(str, words)], catch_exceptions=False)


@pytest.mark.usefixtures("spark")
def test_ingest_and_audit(logs: Logs, tmp_path: Path) -> None:
    worker = Process().boots(0)
    worker.runs("twice", 1)
    worker.runs("twice", 3)
    worker.rejects("clean", 5, published=0)
    worker.starts("lost", 6)
    worker.ends(7, "dead")
    logs.plant(worker)
    warehouse = tmp_path / "warehouse"

    ingested = run("ingest", logs.folder, warehouse)
    assert ingested.stdout.startswith("version 1: 8 new events from 8 lines of 1 new files")
    assert "reading 1 new files" in ingested.stderr

    ids = tmp_path / "ids"
    audited = run("audit", warehouse, "--json", "--ids-out", ids, "--quiet")
    assert audited.exit_code == 0
    assert audited.stderr == ""
    found = json.loads(audited.stdout)
    assert {k: v for k, v in found["verdicts"].items() if v} == {
        "DUPLICATE": 1,
        "LOST": 1,
        "REPLAYABLE": 1,
    }
    assert [attempt["id"] for attempt in found["attempts"]] == ["twice", "lost", "clean"]
    assert ids.read_text() == "clean\n"

    failed = run("audit", warehouse, "--fail-on", "unknown,lost")
    assert failed.exit_code == 1
    assert "1 DUPLICATE, 1 LOST, 1 REPLAYABLE" in failed.stdout
    assert run("audit", warehouse, "--fail-on", "unknown").exit_code == 0


def test_wrong_words(tmp_path: Path, spark: SparkSession) -> None:
    unknown = run("audit", tmp_path, "--fail-on", "broken")
    assert unknown.exit_code == 2
    assert "BROKEN is no verdict; there are duplicate, lost" in unknown.stderr
    missing = run("audit", tmp_path)
    assert missing.exit_code == 1
    assert "has no table 'attempts'; fill it first" in missing.stderr
