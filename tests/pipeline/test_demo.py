"""The demo's event log says the same as its screen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from celery_fair.pipeline.warehouse import Warehouse
from tests.demo.demonstration import run_demo
from tests.pipeline.test_commands import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_shares_are_those_on_the_screen(spark: SparkSession, tmp_path: Path) -> None:
    log, warehouse = tmp_path / "log", tmp_path / "warehouse"
    done = run_demo(
        tmp_path,
        *("--json", "--no-html", "--messages", "300", "--work", "1000", "--event-log", str(log)),
    )
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["event_log"] == str(log)
    (shown,) = report["workloads"]

    # A demo's worker that does not end in time is killed, and leaves its file open.
    assert run("ingest", "--include-open", log, warehouse).exit_code == 0
    starts = Warehouse(spark, warehouse).table("attempts").orderBy("started_at")
    queues = [row["queue"].rpartition(".")[2] for row in starts.select("queue").collect()]
    measured = queues[shown["left_out"] : shown["started"]]
    shares = {queue["queue"]: queue["share"] for queue in shown["queues"]}
    assert {queue: measured.count(queue) / len(measured) for queue in shares} == pytest.approx(
        shares, rel=0.01
    )

    table = json.loads(run("fairness", warehouse, "--json").stdout)["queues"]
    told = {row["queue"].rpartition(".")[2] for row in table if row["seconds"] > 0}
    # Who is backlogged is looked at once a second; the run takes three at the least.
    assert told, "no queue counts as backlogged"
    assert told <= shares.keys()
