"""A host that boots in 1970 and is told later that it is 2023: no wrong verdict, and no flood."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from celery_fair.pipeline.gold.audit import audit
from celery_fair.pipeline.gold.buckets import cut
from celery_fair.pipeline.gold.capacity import capacity
from celery_fair.pipeline.gold.doubts import doubts
from celery_fair.pipeline.ingest import _unset_clocks
from celery_fair.pipeline.silver.gaps import gaps
from tests.pipeline.planted import T0, Process
from tests.pipeline.staged import Silver, bronze

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


AHEAD = 75 * 366 * 86400.0
"""Seconds after `T0`: the year 2099 has begun, or nearly."""


def pi() -> Process:
    """It lacks a record of the time before its clock was set, at `T0`."""
    process = Process(node="celery@pi", queue="mail").boots(30 - T0)
    process.says("mail", "ready", 40 - T0)
    process.beats(50 - T0)
    process.starts("letter", 55 - T0)
    process.forgets()
    process.beats(60 - T0)
    process.runs("a", 0, queue="mail")
    process.ends(600)
    return process


def test_a_clock_that_is_set_makes_no_flood_of_intervals(spark: SparkSession) -> None:
    made = Silver.of(bronze(spark, [pi()]))
    (state,) = made.backlog.collect()
    assert (state["since"], state["until"]) == (T0, T0 + 600)
    (process,) = made.processes.collect()
    assert (process["first_at"], process["dated_at"]) == (30, T0)
    times = capacity(made.attempts, made.processes, 60.0).collect()
    assert len(times) == 11
    assert _unset_clocks(made.processes) == ["celery@pi"]


def test_what_is_longer_than_anything_is_left_out(spark: SparkSession) -> None:
    """A publisher's clock may be wrong, too."""
    rows = spark.createDataFrame([(0.0, T0), (T0, T0 + 90)], "since double, until double")
    assert cut(rows, "since", "until", 3600.0).count() == 1


def test_what_it_lacks_may_be_of_any_time(spark: SparkSession) -> None:
    """Also for who was rejected in 1970, or before it was published."""
    rejecter = Process(queue="mail").boots(0)
    rejecter.rejects("letter", 300, published=100)
    rejecter.rejects("other", 300, published=100, queue="else")
    rejecter.ends(400)
    lacking = Process(queue="post").boots(0)
    lacking.starts("early", 50)
    lacking.forgets()
    lacking.beats(60)
    lacking.ends(90)
    unset = Process(queue="post").boots(10 - T0)
    unset.rejects("early", 20 - T0, published=40)
    unset.ends(30 - T0)
    events = bronze(spark, [pi(), rejecter, lacking, unset])
    made = Silver.of(events)
    found = doubts(made.processes, gaps(events, made.processes)).localCheckpoint()
    rows = audit(made.attempts, made.processes, found).collect()
    verdicts = {row["id"]: row["verdict"] for row in rows}
    assert verdicts == {
        "letter": "UNKNOWN",
        "other": "REPLAYABLE",
        "early": "UNKNOWN",
        "a": "UNKNOWN",  # a second start may be what is missing
    }


def verdicts_of(spark: SparkSession, logs: list[Process], ahead: list[str]) -> dict[str, str]:
    events = bronze(spark, logs)
    made = Silver.of(events)
    assert _unset_clocks(made.processes) == ahead
    found = doubts(made.processes, gaps(events, made.processes)).localCheckpoint()
    rows = audit(made.attempts, made.processes, found).collect()
    return {row["id"]: row["verdict"] for row in rows}


def test_a_clock_that_is_ahead_silences_nobody(spark: SparkSession) -> None:
    """And what its own log lacks may be of now."""
    alive = Process(queue="mail").boots(0)
    alive.runs("a", 10, published=5)
    alive.starts("b", 20, published=5)
    alive.rejects("mine", 250, published=100)
    alive.rejects("letter", 250, published=100, queue="post")
    alive.beats(400)
    ahead = Process(node="celery@2099", queue="post").boots(AHEAD)
    ahead.runs("c", AHEAD + 10, published=AHEAD)
    ahead.beats(AHEAD + 30)
    assert verdicts_of(spark, [alive, ahead], ["celery@2099"]) == {
        "a": "FINISHED",
        "b": "RUNNING",
        "mine": "REPLAYABLE",
        "letter": "UNKNOWN",
        "c": "UNKNOWN",
    }


def test_what_was_published_by_a_clock_that_is_ahead_proves_nothing(spark: SparkSession) -> None:
    rejecter = Process(node="celery@2099").boots(AHEAD)
    rejecter.rejects("letter", AHEAD + 300, published=AHEAD + 100, queue="mail")
    rejecter.runs("a", AHEAD + 300, published=AHEAD + 100, queue="mail")
    rejecter.ends(AHEAD + 400)
    lacking = Process(queue="mail").boots(0)
    lacking.starts("letter", 10)
    lacking.forgets()
    lacking.beats(20)
    lacking.ends(25)
    found = verdicts_of(spark, [rejecter, lacking], ["celery@2099"])
    assert found == {"letter": "UNKNOWN", "a": "UNKNOWN"}


@pytest.mark.wide
def test_a_child_without_a_log_is_in_doubt_whatever_its_workers_clock_says(
    spark: SparkSession,
) -> None:
    """Nor if no clock of all is right."""
    rejecter = Process(node="celery@r").boots(0)
    rejecter.rejects("letter", 300, published=100, queue="post")
    rejecter.ends(400)
    for at in (AHEAD, -T0 + 10):
        parent = Process(node=f"celery@{at:g}", queue="post").boots(at)
        parent.beats(at + 10, child=77)
        parent.ends(at + 20)
        assert verdicts_of(spark, [rejecter, parent], [parent.node]) == {"letter": "UNKNOWN"}
    alone = Process(node="celery@p", queue="post").boots(10 - T0)
    alone.beats(15 - T0, child=77)
    alone.rejects("letter", 16 - T0, published=15 - T0)
    alone.runs("a", 17 - T0, published=15 - T0)
    alone.ends(20 - T0)
    assert verdicts_of(spark, [alone], ["celery@p"]) == {"letter": "UNKNOWN", "a": "UNKNOWN"}


def test_what_started_before_it_was_published_was_published_before(spark: SparkSession) -> None:
    """A publisher's clock that is an hour ahead hides no gap."""
    worker = Process(queue="mail").boots(0)
    worker.runs("a", 10, published=3600)
    worker.ends(4000)
    lacking = Process(node="celery@l", queue="mail").boots(0)
    lacking.starts("a", 15)
    lacking.forgets()
    lacking.beats(20)
    lacking.ends(25)
    assert verdicts_of(spark, [worker, lacking], []) == {"a": "UNKNOWN"}


def test_a_file_that_is_named_by_a_clock_that_is_ahead_may_be_of_any_time(
    spark: SparkSession,
) -> None:
    worker = Process(queue="mail").boots(0)
    worker.ends(10)
    made = Silver.of(bronze(spark, [worker]))
    rows = [(7, "ahead", T0 + AHEAD), (8, "here", T0)]
    unread = spark.createDataFrame(rows, "pid bigint, boot string, since double")
    found = doubts(made.processes, None, unread).collect()
    assert {row["boot"]: (row["since"], row["open"]) for row in found} == {
        "ahead": (-math.inf, False),
        "here": (T0, True),
    }
