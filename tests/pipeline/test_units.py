"""A worker is judged in what it shares by default, messages, whatever its tasks take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from celery_fair.pipeline.gold.fairness import by_queue, fairness
from tests.brokers import Space
from tests.pipeline.planted import Process
from tests.pipeline.staged import Silver, bronze, silver_of
from tests.publishing import publish
from tests.workers import StartWorker

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession

TOOK = {"a": 0.01, "b": 0.005}
NAPS = {"a": 0.02, "b": 0.005}
BURSTS = ({"a": 100, "b": 90}, {"a": 60, "b": 200}, {"a": 150, "b": 250})


def planted(costs: str | None, a: int, b: int, **options: Any) -> Process:
    """So many tasks of two queues that both have messages, for 40 s."""
    process = Process(node=f"{costs}-{a}-{b}").boots(0, costs=costs)
    for queue, count in (("a", a), ("b", b)):
        process.says(queue, "ready", 0, 1.0)
        for number in range(count):
            at = 39 * (number + 0.5) / count
            options = {"queue": queue, "cost": 1.0}
            process.runs(f"{process.node}-{queue}-{number}", at, TOOK[queue], **options)
    process.ends(40)
    return process


def running_out() -> list[Process]:
    """Each time of three messages, the first two are a's; and the same while both have messages."""
    process = Process(node="running out").boots(0, costs="one")
    for number in range(30):
        at = float(number)
        for queue in "ab":
            process.says(queue, "ready", at, 1.0)
        for place, queue in enumerate("aab"):
            process.runs(f"{number}-{place}", at + 0.1 * (place + 1), queue=queue, cost=1.0)
        for queue in "ab":
            process.says(queue, "empty", at + 0.5, 1.0, depth=0)
    process.ends(40)
    steady = Process(node="steady").boots(0, costs="one")
    for queue in "ab":
        steady.says(queue, "ready", 0, 1.0)
    for number, queue in enumerate("aab" * 30):
        steady.runs(f"s{number}", 0.4 * (number + 1), queue=queue, cost=1.0)
    steady.ends(40)
    return [process, steady]


def ill_shared() -> Process:
    """A hundred messages in one minute, beside thousands in another."""
    process = Process(node="ill").boots(0, costs="one")
    for queue in "ab":
        process.says(queue, "ready", 0, 1.0)
    for number in range(4000):
        process.runs(f"ill{number}", 60 + number * 0.01, queue="ab"[number % 2], cost=1.0)
    for number in range(100):
        process.runs(f"ill-{number}", 130 + number * 0.01, queue="aaab"[number % 4], cost=1.0)
    process.ends(140)
    return process


def still_running() -> Process:
    """As a log says that is read while it is written."""
    process = Process(node="running").boots(0, costs="one", concurrency=4)
    for number, queue in enumerate("abab"):
        process.says(queue, "ready", 0, 1.0)
        process.starts(f"running{number}", 1 + number, queue=queue, cost=1.0)
    process.beats(30)
    return process


@pytest.fixture(scope="module")
def silver(spark: SparkSession) -> Silver:
    """One log of all of them."""
    shared = [
        planted("one", 500, 500),
        planted("one", 500, 400),
        planted("runtime", 500, 500),
        planted("runtime", 400, 800),
        planted("custom", 500, 500),
        planted(None, 500, 500),
    ]
    return Silver.of(bronze(spark, [*shared, *running_out(), ill_shared(), still_running()]))


@pytest.fixture(scope="module")
def made(silver: Silver) -> DataFrame:
    return fairness(*silver).localCheckpoint()


def test_the_log_says_what_is_shared(made: DataFrame) -> None:
    rows = made.where("queue = 'a' and node like '%-%'").collect()
    found = {row["node"]: (row["unit"], row["verdict"], round(row["share"], 3)) for row in rows}
    assert found == {
        "one-500-500": ("messages", "FAIR", 0.5),
        "one-500-400": ("messages", "UNFAIR", 0.556),
        "runtime-500-500": ("seconds", "UNFAIR", 0.667),
        "runtime-400-800": ("seconds", "FAIR", 0.5),
        "custom-500-500": ("cost", "FAIR", 0.5),
        "None-500-500": ("seconds", "UNFAIR", 0.667),
    }
    one = next(row for row in rows if row["node"] == "one-500-500")
    assert one["seconds"] / one["total_seconds"] == pytest.approx(2 / 3)


def test_a_queue_that_runs_out_again_and_again_may_be_owed_something_each_time(
    silver: Silver,
) -> None:
    """No scheduler need do better than that."""
    rows = fairness(*silver, 100.0).where("queue = 'a' and node in ('running out', 'steady')")
    found = {row["node"]: row["verdict"] for row in rows.collect()}
    assert found == {"running out": "FAIR", "steady": "UNFAIR"}


def test_intervals_weigh_what_was_due_in_them(made: DataFrame) -> None:
    of_ill = made.where("node = 'ill'")
    (a, b) = by_queue(of_ill).collect()
    assert a["verdicts"]["UNFAIR"] == b["verdicts"]["UNFAIR"] == 1
    assert (a["verdict"], b["verdict"]) == ("FAIR", "FAIR")
    assert a["unfair"] == pytest.approx(50 / 2050)
    (a, _) = by_queue(of_ill, 0.02).collect()
    assert a["verdict"] == "UNFAIR"


def test_tasks_that_still_run_have_shared_messages_and_no_seconds_yet(made: DataFrame) -> None:
    running = made.where("node = 'running'")
    assert [str(row["total_seconds"]) for row in running.collect()] == ["0.0", "0.0"]
    for row in by_queue(running).collect():
        assert (row["served"], row["share"], row["share_of_seconds"]) == (2.0, 0.5, None)


@pytest.mark.wide
def test_a_worker_with_default_settings(
    spark: SparkSession, rabbitmq_space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    conf = {"fair_event_log": str(log)}
    worker = start_worker(rabbitmq_space, queues=[*NAPS], conf=conf)
    for burst in BURSTS:  # the queues run out in between
        ids = [
            id_
            for queue, count in burst.items()
            for id_ in publish(rabbitmq_space.url, {queue: count}, "nap", [NAPS[queue]]).all()
        ]
        worker.records.finished.wait_ids(ids)
    assert worker.stop() == 0
    silver = silver_of(spark, log)

    def judged(quantum: float, interval: float) -> dict[str, Row]:
        """As if a's quantum had been another."""
        of_a = F.when(F.col("queue") == "a", quantum).otherwise(F.col("quantum"))
        backlog = silver.backlog.withColumn("quantum", of_a)
        made = fairness(silver.attempts, backlog, silver.processes, interval).localCheckpoint()
        return {row["queue"]: row for row in by_queue(made).collect()}

    for interval in (1.0, 60.0):
        rows = judged(1.0, interval)
        for row in rows.values():
            # Beside other load a queue may really be empty here while the broker has messages.
            starved = {"STARVED_BY_BROKER"} if row["starved_seconds"] > 0 else set()
            assert row["verdict"] in {"FAIR", *starved}, row
        assert {row["unit"] for row in rows.values()} == {"messages"}
        assert rows["a"]["unfair"] == 0
    # In seconds it would have been unfair.
    assert rows["a"]["share_of_seconds"] > 0.6
    assert rows["a"]["share"] == pytest.approx(0.5, abs=0.05)
    assert judged(3.0, 60.0)["b"]["verdict"] == "UNFAIR"
