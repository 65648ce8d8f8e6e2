"""Every verdict on planted logs whose answer is known beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_fair.pipeline.gold.audit import CLOCKS, audit, changes
from celery_fair.pipeline.silver.attempts import attempts
from celery_fair.pipeline.silver.processes import gaps
from tests.pipeline.planted import T0, Process
from tests.pipeline.staged import bronze, doubts_of
from tests.pipeline.staged import processes as processes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HORIZON = 130.0


def worlds() -> dict[str, tuple[str, list[Process]]]:
    """Name to verdict and processes; each is a node and a queue, and names its message too."""
    made: dict[str, tuple[str, list[Process]]] = {}

    def world(name: str, verdict: str) -> Process:
        process = Process(node=f"celery@{name}", queue=name).boots(0)
        made[name] = verdict, [process]
        return process

    p = world("done", "FINISHED")
    p.runs("done", 5, 2.0)
    p.ends(20)

    p = world("twice", "DUPLICATE")
    p.runs("twice", 5)
    p.runs("twice", 8)
    p.ends(20)

    p = world("twice_elsewhere", "DUPLICATE")
    p.starts("twice_elsewhere", 5)
    p.ends(6, "dead")
    other = Process(node="celery@other", queue="twice_elsewhere").boots(0)
    other.runs("twice_elsewhere", 9)
    other.ends(20)
    made["twice_elsewhere"][1].append(other)

    p = world("retried", "FINISHED")
    p.starts("retried", 5)
    p.finishes("retried", 6, state="RETRY")
    p.runs("retried", 7, retries=1)
    p.ends(20)

    p = world("killed", "LOST")
    p.starts("killed", 5)
    p.ends(6, "dead")

    p = world("left", "LOST")
    p.starts("left", 5)
    p.ends(6, "exit")

    p = world("broken_off", "FINISHED")
    child = Process(node=p.node, parent=p.boot, queue=p.queue).boots(1)
    child.starts("broken_off", 5)
    p.breaks_off("broken_off", 6)
    p.ends(20)
    child.ends(7, "dead")
    made["broken_off"][1].append(child)

    for name, verdict, heard in (("child_lost", "LOST", 37), ("child_gone", "UNKNOWN", 36.9)):
        p = world(name, verdict)
        child = Process(node=p.node, parent=p.boot, queue=p.queue).boots(1)
        child.starts(name, 5)
        child.ends(7, "dead")
        p.beats(heard)  # what it may say of the child's task is in the log, or perhaps not yet
        made[name][1].append(child)

    p = world("killed_gap", "UNKNOWN")
    p.starts("killed_gap", 5)
    p.finishes("killed_gap", 6)
    p.forgets()
    p.ends(7, "dead")

    p = world("killed_dropped", "UNKNOWN")
    p.starts("killed_dropped", 5)
    p.ends(7, "exit", dropped=1)

    p = world("busy", "RUNNING")
    p.starts("busy", 5)
    p.beats(HORIZON)

    p = world("silent", "UNKNOWN")
    p.starts("silent", 5)

    p = world("just_heard", "RUNNING")
    p.starts("just_heard", 5)
    p.beats(HORIZON - 30.0)

    p = world("just_silent", "UNKNOWN")
    p.starts("just_silent", 5)
    p.beats(HORIZON - 30.1)

    p = world("buried", "DEAD_LETTERED")
    p.starts("buried", 5)
    p.ends(6, "dead")
    other = Process(node="celery@burier", queue="buried").boots(0)
    other.rejects("buried", 9, published=1)
    other.ends(20)
    made["buried"][1].append(other)

    p = world("raised", "FINISHED")
    p.rejects("raised", 5, published=1)
    p.runs("raised", 15.1)
    p.ends(20)

    p = world("at_once", "DEAD_LETTERED")  # or before, by another host's clock
    p.rejects("at_once", 5, published=1)
    p.runs("at_once", 14.9)
    p.ends(20)

    p = world("only_end", "UNKNOWN")
    p.finishes("only_end", 6)
    p.ends(20)
    return made


def provable() -> dict[str, tuple[str, list[Process]]]:
    """The same of rejections, which all processes of the time have a say in."""
    made: dict[str, tuple[str, list[Process]]] = {}

    def world(name: str, verdict: str, published: float | None = 10.0) -> Process:
        rejecter = Process(node="celery@r", queue=name).boots(0)
        rejecter.rejects(name, 50, published=published)
        rejecter.ends(60)
        other = Process(node="celery@o", queue=name).boots(5)
        made[name] = verdict, [rejecter, other]
        return other

    world("beating", "REPLAYABLE").beats(50 + CLOCKS)
    world("too_old", "UNKNOWN").beats(49.9 + CLOCKS)
    world("ended", "REPLAYABLE").ends(30)
    world("found_dead", "REPLAYABLE").ends(30, "dead")
    world("undated", "UNKNOWN", published=None).ends(30)

    p = world("gap", "UNKNOWN")
    p.runs("another", 20)
    p.forgets()
    p.ends(30)

    p = world("dropped", "UNKNOWN")
    p.ends(55, dropped=3)

    for name, verdict, end in (("gap_before", "REPLAYABLE", 14.9), ("gap_about", "UNKNOWN", 15.1)):
        p = world(name, verdict, published=15.0 + CLOCKS)
        p.beats(6)
        p.forgets()
        p.ends(end)  # gone before the message was there, or, by another clock, perhaps not

    p = world("headless", "UNKNOWN")
    p.ends(60, quanta={"headless": 1.0})
    p.records.pop(0)  # its first file is missing, and with it when it began

    p = world("orphan", "UNKNOWN")
    p.ends(30)
    child = Process(node="celery@o", parent="nobody", queue="orphan").boots(12)
    child.ends(40)
    made["orphan"][1].append(child)

    for name, verdict, birth in (("later", "REPLAYABLE", 50.1), ("about", "UNKNOWN", 49.9)):
        p = world(name, verdict)
        p.ends(30)
        late = Process(node="celery@late", queue=name).boots(
            birth + CLOCKS
        )  # alive, and not of that time
        late.beats(birth + CLOCKS + 0.05)
        made[name][1].append(late)
    return made


def audited(spark: SparkSession, planted: list[Process], since: float | None = None) -> DataFrame:
    found = bronze(spark, planted)
    lived = processes_of(found).localCheckpoint()
    doubted = doubts_of(lived, gaps(found, lived)).localCheckpoint()
    return audit(attempts(found).localCheckpoint(), lived, doubted, since)


def verdicts(rows: DataFrame) -> dict[str, str]:
    return {f"{row['id']}/{row['retries']}": row["verdict"] for row in rows.collect()}


def test_verdicts(spark: SparkSession) -> None:
    """All in one log: they are of different queues."""
    every = worlds() | provable()
    found = verdicts(audited(spark, [process for _, made in every.values() for process in made]))
    expected = {f"{name}/0": verdict for name, (verdict, _) in every.items()}
    assert {name: found.get(name) for name in expected} == expected
    assert found["retried/1"] == "FINISHED"


@pytest.mark.parametrize("own_first", [True, False])
def test_end_of_which_both_processes_tell(spark: SparkSession, own_first: bool) -> None:
    """A result was on its way when the process died: what did the work knows how it ended."""
    worker = Process(node="celery@n").boots(0)
    child = Process(node="celery@n", parent=worker.boot).boots(1)
    child.starts("both", 5)
    child.finishes("both", 6 if own_first else 8, state="SUCCESS", runtime=1.0)
    worker.breaks_off("both", 7)
    (row,) = attempts(bronze(spark, (worker, child))).collect()
    assert (row["starts"], row["finishes"], row["boot"]) == (1, 1, child.boot)
    assert (row["state"], row["exception"], row["runtime"]) == ("SUCCESS", None, 1.0)


def test_what_was_said_otherwise_before(spark: SparkSession) -> None:
    """And is not what it was; what is new was never said to be anything else."""
    columns = "id string, retries long, verdict string, queue string, why string"

    def said(**verdicts: str) -> DataFrame:
        rows = [(id_, 0, verdict, "q", None) for id_, verdict in verdicts.items()]
        return spark.createDataFrame(rows, columns)

    before = said(letter="UNKNOWN", again="FINISHED", same="LOST", done="FINISHED", gone="LOST")
    now = said(letter="REPLAYABLE", again="DUPLICATE", same="LOST", done="FINISHED", new="LOST")
    assert {
        (row["id"], row["before"], row["verdict"]) for row in changes(before, now).collect()
    } == {
        ("letter", "UNKNOWN", "REPLAYABLE"),
        ("again", "FINISHED", "DUPLICATE"),
    }
    assert changes(now.limit(0), now).isEmpty()


@pytest.mark.wide
def test_log_that_began_later_proves_nothing_before(spark: SparkSession) -> None:
    _, planted = provable()["ended"]
    rows = audited(spark, planted, since=T0 + 10.5)
    assert verdicts(rows)["ended/0"] == "UNKNOWN"
    assert rows.where("verdict = 'REPLAYABLE'").count() == 0
    assert verdicts(audited(spark, planted, since=T0 + 10.0))["ended/0"] == "REPLAYABLE"
