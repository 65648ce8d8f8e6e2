"""Gold tables of random silver ones, against the oracle. Each example is many cases in one job."""

from __future__ import annotations

import random
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from celery_fair.pipeline.gold.audit import audit
from celery_fair.pipeline.gold.costs import costs
from celery_fair.pipeline.gold.fairness import fairness
from celery_fair.pipeline.gold.waits import capacity, waits, waits_by_key
from tests.pipeline.oracle import ask
from tests.pipeline.planted import T0

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INTERVAL = 40.0
QUEUES = [f"q{number}" for number in range(12)]
ATTEMPT = (
    "id string, retries long, task string, queue string, key string, repeatable boolean, node"
    " string, pid long, boot string, cost_key string, cost double, published double, received"
    " double, started_at double, finished_at double, rejected_at double, state string, reason"
    " string, runtime double, starts long, finishes long, rejections long, wait double, skewed"
    " boolean, published_first double, moved boolean, admissions long, last_started_at double"
)
DOUBT = (
    "node string, pid long, boot string, queue string, since double, until double, open boolean,"
    " why string"
)
PROCESS = (
    "node string, pid long, boot string, worker string, born_at double, last_at double,"
    " ended_at double, complete boolean, liveness string, costs string, concurrency long"
)
WORKER = "boot string, worker string, dated_at double, last_at double, concurrency long"
BACKLOG = (
    "node string, pid long, boot string, queue string, since double, until double, state string,"
    " starved boolean, quantum double, level long"
)
few = settings(
    max_examples=1,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a seed does not get simpler
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
# Drawn as a seed: what is drawn value by value is too small to be worth a job of Spark's.
randoms = st.integers(0, 2**32).map(random.Random)


def table(spark: SparkSession, schema: str, rows: list[dict[str, Any]]) -> DataFrame:
    names = [column.split()[0] for column in schema.split(",")]
    return spark.createDataFrame([tuple(row.get(name) for name in names) for row in rows], schema)


def frame(schema: str, rows: list[dict[str, Any]]) -> pd.DataFrame:
    names = [column.split()[0] for column in schema.split(",")]
    types = {"long": "Int64", "double": "Float64", "boolean": "boolean", "string": "object"}
    data = pd.DataFrame([[row.get(name) for name in names] for row in rows], columns=names)
    return data.astype({c.split()[0]: types[c.split()[1]] for c in schema.split(",")})


def processes_of(draw: random.Random, count: int) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for number in range(count):
        process = {"node": f"n{number % 3}", "pid": number, "boot": f"b{number}"}
        born = draw.choice([None, *(T0 + at for at in range(0, 100, 10))])
        ended = draw.choice([None, *(T0 + at for at in range(100, 200, 10))])
        liveness = "ended" if ended else draw.choice(["alive", "silent"])
        complete = born is not None and draw.random() < 0.9
        parents = [p["boot"] for p in made if p["node"] == process["node"]] + ["nobody"]
        worker = draw.choice([process["boot"], process["boot"], *parents])
        made.append(process | {"born_at": born, "ended_at": ended, "liveness": liveness})
        made[-1] |= {"worker": worker, "complete": complete}
        made[-1]["last_at"] = ended or T0 + draw.randrange(100, 200, 10)
    return made


def doubt_of(draw: random.Random, process: dict[str, Any]) -> dict[str, Any]:
    """One that a process leaves about a queue, or all."""
    named = {name: process[name] for name in ("node", "pid", "boot")}
    since = draw.choice([-inf, *(T0 + at for at in range(0, 200, 10))])
    until = draw.choice([inf, since + 10, since + 50]) if since > -inf else T0 + 60
    doubt = {"queue": draw.choice([None, *QUEUES]), "since": since, "until": until, "why": "so"}
    return named | doubt | {"open": until == inf and draw.random() < 0.5}


def attempt_of(draw: random.Random, number: int, processes: list[dict[str, Any]]) -> dict[str, Any]:
    owner = draw.choice([*processes, {"node": "lost", "pid": 1, "boot": "lost"}])
    starts, finishes, rejections = (draw.choice([0, 1, 1, 2]), *draw.choices([0, 1], k=2))
    attempt = {"id": f"t{number}", "retries": 0, "starts": starts, "finishes": finishes}
    published = draw.choice([None, *(T0 + at for at in (5, 45, 95, 125))])
    attempt |= {"rejections": rejections, "published": published, "published_first": published}
    attempt |= {"queue": draw.choice(QUEUES), "admissions": draw.choice([0, 0, 0, 1])}
    if starts:
        attempt |= {"started_at": T0 + draw.randrange(100, 200, 10)}
        attempt |= {"last_started_at": attempt["started_at"] + starts - 1}
        attempt |= {name: owner[name] for name in ("node", "pid", "boot")}
    if rejections:
        attempt |= {"rejected_at": T0 + draw.randrange(100, 200, 10)}
    return attempt


@pytest.mark.wide
@few
@given(draw=randoms)
def test_verdicts(spark: SparkSession, draw: random.Random) -> None:
    from pyspark.sql import functions as F

    processes = processes_of(draw, draw.choice([1, 2, 6]))
    attempts = [attempt_of(draw, number, processes) for number in range(400)]
    doubts = [doubt_of(draw, draw.choice(processes)) for _ in range(draw.choice([0, 2, 5]))]
    named = F.when(F.col("queue").isNotNull(), F.array("queue"))
    found = table(spark, DOUBT, doubts).withColumn("queues", named).drop("queue")
    rows = audit(table(spark, ATTEMPT, attempts), table(spark, PROCESS, processes), found).collect()
    expected = ask(
        "audit",
        attempts=frame(ATTEMPT, attempts),
        processes=frame(PROCESS, processes),
        doubts=frame(DOUBT, doubts),
    )
    assert {row["id"]: row["verdict"] for row in rows} == {
        row["id"]: row["verdict"] for row in expected
    }
    assert len(rows) == len(expected) == len(attempts)


def worker_of(draw: random.Random, boot: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """States of a worker's queues from 0 to 100 without a gap, and what it started meanwhile."""
    worker = {"node": "n", "pid": 1, "boot": boot}
    backlog = []
    queues = [f"q{number}" for number in range(draw.randint(1, 4))]
    for queue in queues:
        cuts = sorted({0.0, 100.0, *(float(draw.randrange(1, 100)) for _ in range(5))})
        level, quantum = draw.choice([0, 0, 0, 1]), draw.choice([0.5, 1.0, 4.0])
        for since, until in pairwise(cuts):
            state = draw.choice(["ready", "ready", "ready", "empty", "throttled"])
            piece = {"queue": queue, "since": since, "until": until, "state": state}
            starved = state == "empty" and draw.random() < 0.5
            backlog.append(
                worker | piece | {"starved": starved, "quantum": quantum, "level": level}
            )
    attempts = [
        worker | {"queue": draw.choice(queues), "started_at": draw.uniform(0, 99.9), "starts": 1}
        for _ in range(60)
    ]
    for attempt in attempts:
        attempt["runtime"] = draw.choice([None, draw.uniform(0.01, 2)])
        attempt["cost"] = draw.choice([None, 1.0, draw.uniform(0.1, 9)])
    return backlog, attempts


@pytest.mark.wide
@few
@given(draw=randoms)
def test_shares(spark: SparkSession, draw: random.Random) -> None:
    workers = [worker_of(draw, f"b{number}") for number in range(12)]
    backlog = [piece for pieces, _ in workers for piece in pieces]
    attempts = [attempt for _, attempts in workers for attempt in attempts]
    boots = [f"b{number}" for number in range(len(workers))]
    known = [None, "one", "custom", "runtime"]
    processes = [
        {"node": "n", "pid": 1, "boot": boot, "worker": boot, "costs": known[number % 4]}
        for number, boot in enumerate(boots)
    ]
    made = fairness(
        table(spark, ATTEMPT, attempts),
        table(spark, BACKLOG, backlog),
        table(spark, PROCESS, processes),
        INTERVAL,
    )
    expected = ask(
        "fairness",
        {"interval": INTERVAL},
        attempts=frame(ATTEMPT, attempts),
        backlog=frame(BACKLOG, backlog),
        processes=frame(PROCESS, processes),
    )
    found = {
        (row["worker"], row["queue"], row["since"] / INTERVAL): row
        for row in made.where("total is not null").collect()
    }
    assert len(found) == len(expected) > 0
    for row in expected:
        here = found[row["worker"], row["queue"], row["bucket"]]
        for name in ("served", "seconds", "due", "total"):
            assert here[name] == pytest.approx(row[name], rel=1e-9, abs=1e-9)


@few
@given(draw=randoms)
def test_costs_and_waits(spark: SparkSession, draw: random.Random) -> None:
    attempts = []
    for number in range(600):
        task, key = draw.choice("abc"), draw.choice([None, "x", "y", "z"])
        mean = {"a": 1.0, "b": {"x": 1.0, "y": 9.0}.get(str(key), 3.0), "c": 2.0}[task]
        published = draw.choice([None, draw.uniform(0, 60)])
        attempt = {"task": task, "cost_key": key, "queue": f"q{task}", "started_at": 50.0}
        attempt |= {"runtime": draw.expovariate(1 / mean), "published": published}
        attempt["key"] = draw.choice([None, "k", "l/1"])
        wait = None if published is None else 50.0 - published
        attempt |= {"id": str(number), "starts": 1, "wait": wait, "skewed": (wait or 0) < 0}
        attempts.append(attempt)
    attempts += [{"task": "once", "cost_key": "x", "queue": "q", "runtime": 5.0, "starts": 1}]
    rows = table(spark, ATTEMPT, attempts)
    data = frame(ATTEMPT, attempts)

    found = {(row["task"], row["cost_key"]): row for row in costs(rows).collect()}
    expected = ask("costs", attempts=data)
    assert len(found) == len(expected)
    for row in expected:
        here = found[row["task"], row["cost_key"]]
        assert here["n"] == row["n"]
        for name in ("mean", "task_mean", "estimate"):
            assert here[name] == pytest.approx(row[name], rel=1e-9)

    waited = {row["queue"]: row.asDict() for row in waits(rows).collect()}
    assert waited.keys() == {"qa", "qb", "qc", "q"}
    for row in ask("waits", attempts=data):
        assert {name: waited[row["queue"]][name] for name in row} == row

    by_key = {f"{row.queue}:{row.key}": row.asDict() for row in waits_by_key(rows).collect()}
    keyed = data[data.key.notna()]
    expected = ask("waits", attempts=keyed.assign(queue=keyed.queue + ":" + keyed.key))
    assert by_key.keys() == {row["queue"] for row in expected}
    for row in expected:
        known = by_key[row.pop("queue")]
        assert {name: known[name] for name in row} == row
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("celery_fair.pipeline.gold.waits.TOP", 1)
        (first,) = waits_by_key(rows).collect()
    assert first["started"] == max(row["started"] for row in by_key.values())


@pytest.mark.wide
@few
@given(draw=randoms)
def test_busy_seconds(spark: SparkSession, draw: random.Random) -> None:
    attempts = []
    for _ in range(400):
        at = draw.choice([None, draw.uniform(0, 500), 10 * INTERVAL])
        runtime = draw.choice([None, 0.0, INTERVAL, draw.expovariate(0.02)])
        published = draw.choice([None, draw.uniform(0, 500), 2 * INTERVAL])
        attempts.append({"started_at": at, "runtime": runtime, "published": published})
    workers = []
    for number in range(20):
        first, life = draw.choice([0.0, INTERVAL, draw.uniform(0, 300)]), draw.uniform(0, 300)
        worker = {"boot": f"b{number}", "worker": f"b{draw.randrange(number + 1, 21) - 1}"}
        worker |= {"dated_at": first, "last_at": draw.choice([first, first + life])}
        workers.append(worker | {"concurrency": draw.choice([None, 0, 1, 4])})
    workers.append({"boot": "w", "worker": "w", "dated_at": 0.0, "last_at": 90.0, "concurrency": 2})

    made = capacity(table(spark, ATTEMPT, attempts), table(spark, WORKER, workers), INTERVAL)
    found = {row["since"]: row for row in made.collect()}
    expected = ask(
        "capacity",
        {"interval": INTERVAL},
        attempts=frame(ATTEMPT, attempts),
        processes=frame(WORKER, workers),
    )
    assert found.keys() == {row["since"] for row in expected} != set()
    for row in expected:
        assert {name: found[row["since"]][name] for name in row} == pytest.approx(row, abs=1e-9)
