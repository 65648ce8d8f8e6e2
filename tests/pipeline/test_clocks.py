"""A host that boots in 1970 and is told later that it is 2023: no wrong verdict, and no flood."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import pytest

from celery_fair.pipeline.gold.audit import audit
from celery_fair.pipeline.gold.pieces import cut
from celery_fair.pipeline.gold.waits import capacity
from celery_fair.pipeline.ingest import _unset_clocks
from celery_fair.pipeline.silver.processes import gaps
from celery_fair.pipeline.silver.unread import UNREAD
from tests.pipeline.planted import T0, Process
from tests.pipeline.staged import Silver, bronze, doubts_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


AHEAD = 75 * 366 * 86400.0
"""Seconds after `T0`: the year 2099 has begun, or nearly."""


def pi() -> list[Process]:
    """It lacks a record of the time before its clock was set, at `T0`."""
    process = Process(node="celery@pi", queue="pi").boots(30 - T0)
    process.says("pi", "ready", 40 - T0)
    process.beats(50 - T0)
    process.starts("letter of pi", 55 - T0)
    process.forgets()
    process.beats(60 - T0)
    process.runs("run by pi", 0)
    process.ends(600)
    rejecter = Process(queue="pi").boots(0)
    rejecter.rejects("letter of pi", 300, published=100)
    rejecter.rejects("of another queue", 300, published=100, queue="else")
    rejecter.ends(400)
    return [process, rejecter]


def early() -> list[Process]:
    """A message that was rejected in 1970, before it was published."""
    lacking = Process(queue="early").boots(0)
    lacking.starts("early", 50)
    lacking.forgets()
    lacking.beats(60)
    lacking.ends(90)
    unset = Process(node="celery@unset", queue="early").boots(10 - T0)
    unset.rejects("early", 20 - T0, published=40)
    unset.ends(30 - T0)
    return [lacking, unset]


def ahead() -> list[Process]:
    alive = Process(queue="alive").boots(0)
    alive.runs("done", 10, published=5)
    alive.starts("running", 20, published=5)
    alive.rejects("mine", 250, published=100)
    alive.rejects("letter", 250, published=100, queue="post")
    alive.beats(590)
    other = Process(node="celery@2099", queue="post").boots(AHEAD)
    other.runs("done in 2099", AHEAD + 10, published=AHEAD)
    other.beats(AHEAD + 30)
    return [alive, other]


def published_ahead() -> list[Process]:
    rejecter = Process(node="celery@2100").boots(AHEAD)
    rejecter.rejects("published", AHEAD + 300, published=AHEAD + 100, queue="published")
    rejecter.runs("run", AHEAD + 300, published=AHEAD + 100, queue="published")
    rejecter.ends(AHEAD + 400)
    lacking = Process(queue="published").boots(0)
    lacking.starts("published", 10)
    lacking.forgets()
    lacking.beats(20)
    lacking.ends(25)
    later = Process(queue="published").boots(0)
    later.runs("run later", 300, published=AHEAD + 100, queue="published")
    later.ends(390)
    return [rejecter, lacking, later]


def an_hour_ahead() -> list[Process]:
    worker = Process(queue="hour").boots(0)
    worker.runs("hour", 10, published=3600)
    worker.ends(390)
    lacking = Process(node="celery@l", queue="hour").boots(0)
    lacking.starts("hour", 15)
    lacking.forgets()
    lacking.beats(20)
    lacking.ends(25)
    return [worker, lacking]


def childless() -> list[Process]:
    """Workers that name a child of which there is no log, by clocks none of which is right."""
    rejecter = Process(node="celery@r").boots(0)
    made = [rejecter]
    for number, at in enumerate((AHEAD, -T0 + 10)):
        queue = f"child{number}"
        rejecter.rejects(queue, 300, published=100, queue=queue)
        parent = Process(node=f"celery@{at:g}", queue=queue).boots(at)
        parent.beats(at + 10, child=77)
        parent.ends(at + 20)
        made.append(parent)
    rejecter.ends(400)
    alone = Process(node="celery@p", queue="alone").boots(10 - T0)
    alone.beats(15 - T0, child=77)
    alone.rejects("alone", 16 - T0, published=15 - T0)
    alone.runs("run alone", 17 - T0, published=15 - T0)
    alone.ends(20 - T0)
    return [*made, alone]


class Judged(NamedTuple):
    """All of them, in one log."""

    silver: Silver
    verdicts: dict[str, str]

    def of(self, *names: str) -> list[str]:
        return [self.verdicts[name] for name in names]


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> Judged:
    cases = (pi, early, ahead, published_ahead, an_hour_ahead, childless)
    events = bronze(spark, [process for case in cases for process in case()])
    made = Silver.of(events)
    found = doubts_of(made.processes, gaps(events, made.processes)).localCheckpoint()
    rows = audit(made.attempts, made.processes, found).collect()
    return Judged(made, {row["id"]: row["verdict"] for row in rows})


def test_whose_clocks_were_not_set_or_are_ahead(judged: Judged) -> None:
    of_children = [f"celery@{at:g}" for at in (AHEAD, -T0 + 10)]
    named = ["celery@2099", "celery@2100", "celery@p", "celery@pi", "celery@unset", *of_children]
    assert sorted(_unset_clocks(judged.silver.processes)) == sorted(named)


def test_a_clock_that_is_set_makes_no_flood_of_intervals(judged: Judged) -> None:
    made = judged.silver
    (state,) = made.backlog.where("queue = 'pi'").collect()
    assert (state["since"], state["until"]) == (T0, T0 + 600)
    processes = made.processes.where("node = 'celery@pi'")
    (process,) = processes.collect()
    assert (process["first_at"], process["dated_at"]) == (30, T0)
    times = capacity(made.attempts.where("queue = 'pi'"), processes, 60.0).collect()
    assert len(times) == 11


def test_what_is_longer_than_anything_is_left_out(spark: SparkSession) -> None:
    """A publisher's clock may be wrong, too."""
    rows = spark.createDataFrame([(0.0, T0), (T0, T0 + 90)], "since double, until double")
    assert cut(rows, "since", "until", 3600.0).count() == 1


def test_what_it_lacks_may_be_of_any_time(judged: Judged) -> None:
    """Also for who was rejected in 1970, or before it was published."""
    assert judged.of("letter of pi", "early") == ["UNKNOWN"] * 2
    assert judged.of("of another queue") == ["REPLAYABLE"]
    assert judged.of("run by pi") == ["UNKNOWN"]  # a second start may be what is missing


def test_a_clock_that_is_ahead_silences_nobody(judged: Judged) -> None:
    """And what its own log lacks may be of now."""
    assert judged.of("done", "running", "mine") == ["FINISHED", "RUNNING", "REPLAYABLE"]
    assert judged.of("letter", "done in 2099") == ["UNKNOWN"] * 2


def test_what_was_published_by_a_clock_that_is_ahead_proves_nothing(judged: Judged) -> None:
    assert judged.of("published", "run", "run later") == ["UNKNOWN"] * 3


def test_a_child_without_a_log_is_in_doubt_whatever_its_workers_clock_says(
    judged: Judged,
) -> None:
    """Nor if no clock of all is right."""
    assert judged.of("child0", "child1", "alone", "run alone") == ["UNKNOWN"] * 4


def test_what_started_before_it_was_published_was_published_before(judged: Judged) -> None:
    """A publisher's clock that is an hour ahead hides no gap."""
    assert judged.of("hour") == ["UNKNOWN"]


def test_a_file_that_is_named_by_a_clock_that_is_ahead_may_be_of_any_time(
    spark: SparkSession, judged: Judged
) -> None:
    rows = [(7, "ahead", T0 + AHEAD, None), (8, "here", T0 + 590, None)]
    unread = spark.createDataFrame(rows, UNREAD)
    found = doubts_of(judged.silver.processes, unread=unread)
    found = found.where("boot in ('ahead', 'here')").collect()
    assert {row["boot"]: (row["since"], row["open"]) for row in found} == {
        "ahead": (-math.inf, False),
        "here": (T0 + 590, True),
    }
