"""The demo's event log says the same as its screen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from celery_fair.pipeline.gold.fairness import by_queue, fairness
from tests.demo.demonstration import run_demo
from tests.pipeline.staged import silver_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.wide
def test_shares_are_those_on_the_screen(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "log"
    done = run_demo(
        tmp_path,
        *(
            "--shares",
            "--json",
            "--no-html",
            "--messages",
            "400",
            "--work",
            "2000",
            "--event-log",
            str(log),
        ),
    )
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["event_log"] == str(log)
    (shown,) = report["workloads"]

    silver = silver_of(spark, log)
    starts = silver.attempts.orderBy("started_at").select("queue").collect()
    queues = [row["queue"].rpartition(".")[2] for row in starts]
    measured = queues[shown["left_out"] : shown["started"]]
    shares = {queue["queue"]: queue["share"] for queue in shown["queues"]}
    assert {queue: measured.count(queue) / len(measured) for queue in shares} == pytest.approx(
        shares, rel=0.01
    )

    rows = by_queue(fairness(*silver)).where("seconds > 0").collect()
    told = {row["queue"].rpartition(".")[2] for row in rows}
    # Who is backlogged is looked at once a second; the run takes eight at the least.
    assert told, "no queue counts as backlogged"
    assert told <= shares.keys()
