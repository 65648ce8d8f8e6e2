"""Shares and cost estimates against cases that were reckoned by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_fair.pipeline.gold.costs import costs, model
from celery_fair.pipeline.gold.fairness import by_queue, fairness
from celery_fair.pipeline.gold.waits import capacity
from celery_fair.pipeline.silver.attempts import attempts
from tests.pipeline.planted import T0, Process
from tests.pipeline.staged import Silver, bronze

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def worker(name: str, quanta: dict[str, float]) -> Process:
    process = Process(node=name, boot=name).boots(0)
    for queue, quantum in quanta.items():
        process.says(queue, "ready", 0, quantum)
    return process


def works(process: Process, queue: str, times: int, since: float, until: float) -> None:
    """So many tasks of 0.1 s, evenly spread."""
    for number in range(times):
        at = since + (until - since) * (number + 0.5) / times
        process.runs(f"{process.node}-{queue}-{at}", at, 0.1, queue=queue)


def fleet() -> list[Process]:
    """A worker for each verdict; T0 is 20 s into a minute, of which they use the 40 s left."""
    fair = worker("fair", {"a": 3, "b": 1})
    works(fair, "a", 300, 0, 39)
    works(fair, "b", 100, 0, 39)

    unfair = worker("unfair", {"a": 3, "b": 1})
    works(unfair, "a", 200, 0, 39)
    works(unfair, "b", 200, 0, 39)

    # a's messages are away for half of the time, in which b has the worker for itself.
    starved = worker("starved", {"a": 3, "b": 1})
    works(starved, "a", 150, 0, 20)
    works(starved, "b", 50, 0, 20)
    starved.says("a", "empty", 20, 3)
    starved.says("a", "empty", 25, 3, depth=500, since=20)
    works(starved, "b", 200, 20, 39)

    # The same, and what is here of a does not get its share either.
    short = worker("short", {"a": 3, "b": 1})
    works(short, "a", 120, 0, 20)
    works(short, "b", 80, 0, 20)
    short.says("a", "empty", 20, 3)
    short.says("a", "empty", 25, 3, depth=500, since=20)
    works(short, "b", 200, 20, 39)

    empty = worker("empty", {"a": 3, "b": 1})
    works(empty, "a", 150, 0, 20)
    works(empty, "b", 50, 0, 20)
    empty.says("a", "empty", 20, 3, depth=0)
    works(empty, "b", 200, 20, 39)

    held = worker("held", {"a": 3, "b": 1})
    works(held, "a", 30, 0, 4)
    works(held, "b", 10, 0, 4)
    held.says("a", "throttled", 4, 3)
    works(held, "b", 350, 4, 39)

    classes = worker("classes", {"a": 3})
    classes.says("high", "ready", 0, 1, level=1)
    works(classes, "high", 200, 0, 39)
    made = [fair, unfair, starved, short, empty, held, classes]
    for process in made:
        process.ends(40)
    return made


def test_verdicts(spark: SparkSession) -> None:
    made = fairness(*Silver.of(bronze(spark, fleet()))).localCheckpoint()
    rows = {(row["node"], row["queue"]): row for row in made.collect()}
    assert {key: row["verdict"] for key, row in rows.items()} == {
        ("fair", "a"): "FAIR",
        ("fair", "b"): "FAIR",
        ("unfair", "a"): "UNFAIR",
        ("unfair", "b"): "UNFAIR",
        ("starved", "a"): "STARVED_BY_BROKER",
        ("starved", "b"): "FAIR",
        ("short", "a"): "STARVED_BY_BROKER",
        ("short", "b"): "UNFAIR",
        ("empty", "a"): "FAIR",
        ("empty", "b"): "FAIR",
        ("held", "a"): "HELD",
        ("held", "b"): "FAIR",
        ("classes", "a"): "ALONE",
        ("classes", "high"): "ALONE",
    }
    fair, unfair, starved = (rows[node, "a"] for node in ("fair", "unfair", "starved"))
    assert (fair["share"], fair["target"]) == pytest.approx((0.75, 0.75))
    assert (unfair["share"], unfair["target"]) == pytest.approx((0.5, 0.75))
    assert (fair["deviation"], unfair["deviation"]) == pytest.approx((0.0, -1 / 3))
    assert (starved["share"], starved["starved_seconds"]) == pytest.approx((150 / 400, 20.0))
    assert rows["empty", "a"]["share"] == pytest.approx(0.75)
    assert rows["held", "a"]["held_seconds"] == pytest.approx(36.0)

    summed = {row["queue"]: row for row in by_queue(made).collect()}
    assert summed["a"]["intervals"] == 7
    assert summed["a"]["verdicts"] == {
        "FAIR": 2,
        "UNFAIR": 1,
        "STARVED_BY_BROKER": 2,
        "HELD": 1,
        "ALONE": 1,
    }
    # Of fair, unfair, starved, short, empty and held: 300 + 200 + 150 + 120 + 150 + 30 of
    # 400 + 400 + 400 + 400 + 200 + 40 tasks of one length.
    assert summed["a"]["share"] == pytest.approx(950 / 1840)
    assert summed["a"]["target"] == pytest.approx(0.75)


def test_utilisation(spark: SparkSession) -> None:
    # T0 is 20 s into a minute; two slots from 10 s after it to 110 s after it.
    process = Process().boots(10, concurrency=2)
    process.runs("within", 20, 6.0, published=15)
    process.runs("across", 35, 15.0, published=45)
    process.ends(110)
    silver = Silver.of(bronze(spark, [process]))
    rows = capacity(silver.attempts, silver.processes).orderBy("since").collect()
    first = {"since": T0 - 20, "until": T0 + 40}
    assert [row.asDict() for row in rows] == [
        first | {"busy_seconds": 11.0, "slot_seconds": 60.0, "utilisation": 11 / 60},
        {
            "since": T0 + 40,
            "until": T0 + 100,
            "busy_seconds": 10.0,
            "slot_seconds": 120.0,
            "utilisation": 10 / 120,
        },
        {
            "since": T0 + 100,
            "until": T0 + 160,
            "busy_seconds": 0.0,
            "slot_seconds": 20.0,
            "utilisation": 0.0,
        },
    ]


def test_estimates(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process()
    for number, runtime in enumerate((1.0, 3.0, 6.0, 9.0, 9.0)):
        process.runs(f"{number}", number, runtime, cost_key="xy"[number > 1], task="t")
    process.runs("one", 9, 4.0, task="single")
    rows = costs(attempts(bronze(spark, [process]))).localCheckpoint()
    found = {(row["task"], row["cost_key"]): row for row in rows.collect()}
    # Means 2 and 8, of all 5.6; the variance within is (1 + 1 + 4 + 1 + 1) / 3, the squares across
    # are 2·3.6² + 3·2.4² = 43.2, and 5 - 13/5 = 2.4.
    between = (43.2 - 8 / 3) / 2.4
    z = 2 / (2 + 8 / 3 / between)
    x = found["t", "x"]
    assert (x["mean"], x["task_mean"], x["credibility"]) == pytest.approx((2.0, 5.6, z))
    assert x["estimate"] == pytest.approx(z * 2 + (1 - z) * 5.6)
    assert found["t", "y"]["mean"] == pytest.approx(8.0)
    assert found["single", None]["estimate"] == 4.0
    monkeypatch.setattr("celery_fair.pipeline.gold.costs.KEYS", 1)
    assert model(rows) == {
        "v": 1,
        "tasks": {"t": {"mean": pytest.approx(5.6), "n": 5}, "single": {"mean": 4.0, "n": 1}},
        "keys": {"t": {"y": {"mean": found["t", "y"]["estimate"], "n": 3}}},
    }
