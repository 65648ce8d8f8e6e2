"""By key: shares, first waits, costs and verdicts, where the truth is known."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
import pytest
from hypothesis import given, settings
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from celery_fair.pipeline.gold import keys
from celery_fair.pipeline.gold.audit import audit, audit_by_key
from celery_fair.pipeline.gold.costs import costs_by_key
from celery_fair.pipeline.gold.fairness_by_key import by_key, fairness_by_key
from celery_fair.pipeline.gold.waits import first_waits, first_waits_by_key
from celery_fair.pipeline.silver.attempts import attempts
from celery_fair.pipeline.silver.queues import backlog
from celery_fair.pipeline.silver.queues import settings as settings_of
from tests.pipeline.oracle import ask
from tests.pipeline.planted import T0, Process
from tests.pipeline.staged import Silver, bronze, doubts_of, processes
from tests.pipeline.test_oracle import ATTEMPT, PROCESS, few, frame, randoms, table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

MINUTE = 60.0


class Jobs:
    """A worker of a queue that is shared by key, from T0 on, which is 20 s into a minute."""

    def __init__(self, queue: str, **shared: Any) -> None:
        self.queue = queue
        self.process = Process().boots(0, concurrency=2)
        self.share(0, **shared)
        self.number = 0

    def share(self, at: float, **shared: Any) -> None:
        usual = {"queue": self.queue, "costs": "one", "policy": "dwrr", "key_weight": 1.0}
        self.process.write("settings", at, **usual | shared)

    def run(
        self,
        key: str | None,
        at: float,
        published: float,
        runtime: float = 0.1,
        queue: str | None = None,
    ) -> None:
        self.number += 1
        options: dict[str, Any] = {"queue": queue or self.queue, "cost": 1.0}
        if key is not None:
            options["key"] = key
        name = f"{self.queue}{self.number}"
        self.process.runs(name, at, runtime, published=published, **options)

    def serve(
        self,
        order: Iterable[str | None],
        since: float,
        published: float,
        queue: str | None = None,
    ) -> None:
        """One after the other, a tenth of a second each, all published at once."""
        for number, key in enumerate(order):
            self.run(key, since + number * 0.1, published, queue=queue)


def made(spark: SparkSession, *every: Jobs) -> tuple[Silver, DataFrame]:
    for jobs in every:
        jobs.process.ends(300)
    found = bronze(spark, [jobs.process for jobs in every])
    # Of what is by key, nothing is made of the backlog.
    silver = Silver(
        attempts(found).localCheckpoint(), backlog(found), processes(found).localCheckpoint()
    )
    return silver, settings_of(found).localCheckpoint()


def shares(
    spark: SparkSession, *every: Jobs, **options: Any
) -> tuple[DataFrame, dict[Any, dict[str, Any]]]:
    silver, said = made(spark, *every)
    table = fairness_by_key(silver.attempts, silver.processes, said, **options).localCheckpoint()
    return table, by_place(table)


def by_place(table: DataFrame) -> dict[Any, dict[str, Any]]:
    return {
        (row["tenant"], row["part"], round(row["since"] - T0)): row.asDict()
        for row in table.collect()
    }


class Log(NamedTuple):
    """One log of several queues, and what was made of it."""

    silver: Silver
    shares: DataFrame

    def attempts(self, queue: str) -> DataFrame:
        return self.silver.attempts.where(F.col("queue") == queue)

    def shares_of(self, *queues: str) -> DataFrame:
        return self.shares.where(F.col("queue").isin(*queues))


@pytest.fixture(scope="module")
def log(spark: SparkSession) -> Log:
    """What the tests below have, a queue or more each."""
    every = (weights(), changing(), limits(), firsts(), costs())
    silver, said = made(spark, *every)
    table = fairness_by_key(silver.attempts, silver.processes, said).localCheckpoint()
    return Log(silver, table)


def weights() -> Jobs:
    """In the second minute the heavy one gets no more than the other."""
    jobs = Jobs("weights", key_weights={"acme": 3.0})
    jobs.serve(["acme/1", "acme/2", "acme/1", "quiet"] * 30, 0, 0)  # part 1 gets twice as much
    jobs.serve(["acme", "quiet"] * 60, 45, 44)
    return jobs


def test_tenants_share_by_weight_and_parts_evenly(log: Log) -> None:
    table = log.shares_of("weights")
    rows = by_place(table)
    first = rows["acme", "", -20]
    assert (first["unit"], first["weight"], first["verdict"]) == ("messages", 3, "FAIR")
    assert (first["share"], first["target"]) == pytest.approx((0.75, 0.75), abs=0.01)
    assert rows["quiet", "", -20]["verdict"] == "FAIR"
    second = rows["acme", "", 40]
    assert (second["share"], second["target"]) == pytest.approx((0.5, 0.75), abs=0.01)
    assert second["verdict"] == rows["quiet", "", 40]["verdict"] == "UNFAIR"
    one, two = rows["acme", "1", -20], rows["acme", "2", -20]
    assert (one["level"], one["share"], one["target"]) == pytest.approx(
        ("part", 2 / 3, 0.5), abs=0.01
    )
    assert (one["verdict"], two["verdict"]) == ("UNFAIR", "UNFAIR")
    (acme, quiet, *_) = by_key(table).collect()
    assert (acme["tenant"], quiet["tenant"]) == ("acme", "quiet")
    assert (acme["intervals"], acme["verdict"]) == (2, "UNFAIR")


def changing() -> Jobs:
    """What is set live, in the middle of the minute; said first, it holds for before, too."""
    jobs = Jobs("changing", key_weights={"a": 4.0})
    jobs.serve("aaaab" * 20, 0, -5)
    jobs.share(10.0, key_weights={"b": 4.0})
    jobs.serve("abbbb" * 20, 10.05, 10)
    return jobs


def test_what_a_key_weighed_at_the_time(log: Log) -> None:
    rows = by_place(log.shares_of("changing"))
    for key in "ab":
        assert rows[key, "", -20]["verdict"] == "FAIR"
        assert (rows[key, "", -20]["share"], rows[key, "", -20]["target"]) == pytest.approx(
            (0.5, 0.5), abs=0.02
        )


@pytest.mark.wide
def test_what_starts_as_an_interval_ends_is_somebodys(spark: SparkSession) -> None:
    """The last message of a key, with which its wait is over, as well as the first of the next."""
    jobs = Jobs("jobs")
    jobs.serve("ab" * 10, 37.0, 30)
    jobs.run("a", 40.0, 30)  # to the second on which a minute begins
    jobs.run("b", 40.5, 30)
    _, rows = shares(spark, jobs)
    assert (rows["a", "", -20]["served"], rows["b", "", -20]["served"]) == (11, 10)


def limits() -> Jobs:
    jobs = Jobs("limits")
    jobs.share(0, queue="capped", key_caps={"c": 1.0, "d": 0.0})
    jobs.share(0, queue="leashed", key_rate=2.5, key_rates={"f": 0.0})
    jobs.serve("abbb" * 25, 0, 0)  # a might have half of it
    jobs.serve("cddd" * 25, 0, 0, queue="capped")
    jobs.serve("efff" * 25, 0, 0, queue="leashed")
    return jobs


def test_who_is_limited_is_held_and_leaves_its_share_to_the_others(log: Log) -> None:
    rows = by_place(log.shares_of("limits", "capped", "leashed"))
    assert {key: rows[key, "", -20]["verdict"] for key in "abcdef"} == {
        "a": "UNFAIR",
        "b": "UNFAIR",
        "c": "HELD",
        "d": "FAIR",
        "e": "HELD",
        "f": "FAIR",
    }


@pytest.mark.wide
def test_the_others_have_no_row(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "TOP", 2)
    jobs = Jobs("jobs")
    jobs.serve(["a", "b", "a", "c", "a", "b", None] * 8, 0, 0)
    table, rows = shares(spark, jobs)
    assert rows.keys() == {("a", "", -20), ("b", "", -20)}
    monkeypatch.setattr(keys, "TOP", 1)
    (a,) = by_key(table).collect()
    assert a["tenant"] == "a"


@pytest.mark.wide
def test_a_key_per_message(spark: SparkSession) -> None:
    """Tables are bounded, however many there are."""
    attempts = spark.range(3_000).select(
        F.concat(F.lit("t"), "id").alias("id"),
        *(F.lit(0).cast("long").alias(name) for name in ("retries", "finishes", "rejections")),
        *(F.lit("x").alias(name) for name in ("task", "node", "boot")),
        F.lit("jobs").alias("queue"),
        F.concat(F.lit("k"), "id").alias("key"),
        F.lit(1).cast("long").alias("pid"),
        F.lit(1.0).alias("cost"),
        F.lit(0.0).alias("published"),
        F.expr("(id + 1) / 1000").cast("double").alias("started_at"),
        F.lit(None).cast("double").alias("rejected_at"),
        F.lit(0.001).alias("runtime"),
        F.lit(1).cast("long").alias("starts"),
        F.lit("FINISHED").alias("verdict"),
        F.expr("(id + 1) / 1000").cast("double").alias("wait"),
    )
    worker = {"node": "x", "pid": 1, "boot": "x", "worker": "x", "costs": "one"}
    processes = table(spark, PROCESS, [worker])
    said = settings_of(bronze(spark, [Jobs("jobs").process])).localCheckpoint()
    made = fairness_by_key(attempts, processes, said).localCheckpoint()
    assert made.count() == 1000
    assert by_key(made).count() == 1000
    assert costs_by_key(attempts).count() == audit_by_key(attempts).count() == 1000


@pytest.mark.wide
@settings(few, max_examples=1)  # two queues with two levels are many cases
@given(draw=randoms)
def test_shares_as_the_oracle_has_them(spark: SparkSession, draw: random.Random) -> None:
    keys = [None, "a", "b", "c/1", "c/2", "c/3", "d/1"]
    weights = [
        {"tenant": tenant, "weight": draw.choice([0.5, 1.0, 4.0]), "since": float(since)}
        for since in (0, 30, 55)
        for tenant in "abcd"
    ]
    attempts = []
    for number in range(400):
        published = draw.choice([None, draw.uniform(0, 80), draw.choice([10.0, 40.0])])
        wait = draw.choice([0.0, draw.expovariate(1), draw.expovariate(0.1)])
        attempt = {"id": str(number), "node": "n", "pid": 1, "boot": "w", "published": published}
        attempt |= {"queue": draw.choice("pq"), "key": draw.choice(keys), "starts": 1}
        attempt |= {"cost": draw.choice([None, 1.0, 2.5]), "runtime": draw.choice([None, 0.5])}
        attempt["started_at"] = draw.uniform(0, 80) if published is None else published + wait
        if draw.random() < 0.1:
            attempt |= {"rejected_at": attempt["started_at"], "started_at": None, "starts": 0}
        attempts.append(attempt)
    worker = {"node": "n", "pid": 1, "boot": "w", "worker": "w", "costs": "one"}
    said = []
    for since in (0, 30, 55):
        own = {w["tenant"]: w["weight"] for w in weights if w["since"] == since}
        said += [
            {"kind": "settings", "queue": queue, "key_weight": 1.0, "key_weights": own}
            | {"node": "n", "pid": 1, "boot": "w", "seq": len(said) + n, "at": float(since)}
            for n, queue in enumerate("pq")
        ]
    process = Process(node="n", pid=1, boot="w", records=said)
    process.shift(0.0)
    shared = settings_of(bronze(spark, [process])).localCheckpoint()
    made = fairness_by_key(
        table(spark, ATTEMPT, attempts), table(spark, PROCESS, [worker]), shared, 40.0
    )
    found = {
        (row["queue"], row["level"], row["since"] / 40.0, row["tenant"], row["part"]): row
        for row in made.where("total is not null").collect()
    }
    expected = ask(
        "fairness_by_key",
        {"interval": 40.0},
        attempts=frame(ATTEMPT, attempts),
        weights=pd.DataFrame(weights),
    )
    assert len(found) == len(expected) > 0
    for row in expected:
        place = (row["queue"], row["level"], row["bucket"], row["tenant"], row["part"])
        for name in ("served", "due", "total"):
            assert found[place][name] == pytest.approx(row[name], rel=1e-9, abs=1e-9), place


def firsts() -> Jobs:
    """A tenant's parts are one."""
    jobs = Jobs("firsts")
    jobs.run("loud/1", at=1, published=0)  # the first
    jobs.run("loud/2", at=50, published=0.5)
    jobs.run("loud/1", at=51, published=30)
    jobs.run("quiet", at=2.25, published=2)  # the first
    jobs.run("quiet", at=9, published=5)  # again, as the one before has gone
    jobs.run(None, at=20, published=19)
    jobs.process.runs("p", 100, 0.1, published=0, queue="plain")
    return jobs


def test_first_messages(log: Log) -> None:
    """Of a tenant that had nothing waiting."""
    rows = log.silver.attempts.where("queue in ('firsts', 'plain')")
    (row,) = first_waits(rows).collect()
    assert (row["queue"], row["started"], row["p50"], row["longest"]) == ("firsts", 4, 1.0, 4.0)
    by = {row["key"]: row["longest"] for row in first_waits_by_key(rows).collect()}
    assert by == {"loud/1": 1.0, "quiet": 4.0}


def costs() -> Jobs:
    jobs = Jobs("costs")
    for number, (key, runtime) in enumerate(
        [("a/1", 2.0), ("a/2", 4.0), ("b", 1.0), (None, 0.5), ("c", 0.5)]
    ):
        jobs.run(key, at=number, published=0, runtime=runtime)
    for at in (20, 21):
        jobs.process.runs("twice", at, queue="costs", key="c")
    return jobs


def test_costs_and_verdicts(spark: SparkSession, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "TOP", 2)
    rows = log.attempts("costs")
    assertDataFrameEqual(
        costs_by_key(rows.where("id <> 'twice'")).select(
            "tenant", "n", "mean", "longest", "seconds", "part_of_queue"
        ),
        spark.createDataFrame(
            [("a", 2, 3.0, 4.0, 6.0, 0.75), ("b", 1, 1.0, 1.0, 1.0, 0.125)],
            "tenant string, n long, mean double, longest double, seconds double,"
            " part_of_queue double",
        ),
    )
    counted = audit_by_key(audit(rows, log.silver.processes, doubts_of(log.silver.processes)))
    assertDataFrameEqual(
        counted.select("tenant", "attempts", "to_look_at", "duplicate", "finished"),
        spark.createDataFrame(
            [("c", 2, 1, 1, 1), ("a", 2, 0, 0, 2)],
            "tenant string, attempts long, to_look_at long, duplicate long, finished long",
        ),
    )
