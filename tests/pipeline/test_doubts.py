"""What a log may lack: of which queues, from when until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from celery_fair.pipeline.silver.processes import gaps
from tests.pipeline.planted import T0, Process
from tests.pipeline.staged import bronze, doubts_of, processes

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession


class Doubted(NamedTuple):
    """What was doubted in one log of several workers."""

    rows: list[Row]
    written: dict[str, float]
    """When each process wrote its last record, by its boot."""

    def about(self, *processes: Process) -> list[Row]:
        boots = {process.boot for process in processes}
        return [row for row in self.rows if row["boot"] in boots]


def gap() -> tuple[Process, Process]:
    worker = Process(queue="b").boots(0)
    child = Process(node=worker.node, parent=worker.boot, queue="a").boots(1)
    child.starts("x", 5)
    child.forgets()
    child.finishes("x", 7)
    for process in (worker, child):
        process.ends(20)
    return worker, child


def childless() -> tuple[Process, Process]:
    """A worker that says of a child which could not open its log that there is such a process."""
    worker = Process().boots(0)
    child = Process(node=worker.node, parent=worker.boot).boots(1)
    child.ends(199)
    for number, pid in enumerate((child.pid, 77)):
        fields = {"state": "child", "parent": worker.boot, "child": pid}
        worker.write("process", 5 + number, **fields)
    worker.ends(200)
    return worker, child


def killed() -> tuple[Process, Process]:
    """Between the records that are there and the last, which has the word of death alone."""
    killed, whole = Process().boots(0), Process().boots(0)
    for process, last in ((killed, 4), (whole, 0)):
        process.dies(9, last)
    return killed, whole


def set_back() -> tuple[Process, Process]:
    cut, gappy = Process(queue="cut").boots(0), Process(queue="gappy").boots(0)
    for process in (cut, gappy):
        process.beats(3600)
    cut.beats(10)
    cut.dies(20, last=2, dropped=1)
    gappy.beats(20)
    gappy.forgets()
    gappy.beats(30)
    gappy.ends(40)
    return cut, gappy


def broken_off() -> Process:
    """Of a node that is lost: nobody tells its end."""
    process = Process().boots(0)
    process.beats(5)
    return process


GAP, CHILDLESS, KILLED, SET_BACK = gap(), childless(), killed(), set_back()
BROKEN_OFF = broken_off()


@pytest.fixture(scope="module")
def doubted(spark: SparkSession) -> Doubted:
    events = bronze(spark, [*GAP, *CHILDLESS, *KILLED, *SET_BACK, BROKEN_OFF])
    lived = processes(events).localCheckpoint()
    written = {row["boot"]: row["written_at"] for row in lived.collect()}
    return Doubted(doubts_of(lived, gaps(events, lived)).where("not open").collect(), written)


def test_gap_is_about_its_queues(doubted: Doubted) -> None:
    """And about those of its worker; from the record before it to the one after it."""
    (doubt,) = doubted.about(*GAP)
    assert (doubt["boot"], sorted(doubt["queues"])) == (GAP[1].boot, ["a", "b"])
    assert (doubt["since"], doubt["until"]) == (T0 + 1, T0 + 7)
    assert doubt["why"] == "its record 1 is missing"


def test_child_without_a_log(doubted: Doubted) -> None:
    (doubt,) = [row for row in doubted.rows if row["pid"] == 77]
    assert (doubt["since"], doubt["until"]) == (T0, T0 + 200)
    assert [row["pid"] for row in doubted.about(*CHILDLESS)] in ([], [77])


def test_file_that_went_astray(doubted: Doubted) -> None:
    (doubt,) = doubted.about(*KILLED)
    assert (doubt["boot"], doubt["since"], doubt["until"]) == (KILLED[0].boot, T0, T0 + 9)


def test_clock_that_is_set_back(doubted: Doubted) -> None:
    """What is lost then may be of any time, also if that was to be seen at the end only."""
    times = {row["boot"]: (row["since"], row["until"]) for row in doubted.about(*SET_BACK)}
    boots = [process.boot for process in SET_BACK]
    assert times == dict.fromkeys(boots, (float("-inf"), float("inf")))
    assert doubted.written[SET_BACK[0].boot] == T0 + 10


def test_log_that_breaks_off(doubted: Doubted) -> None:
    """It may have started anything from its last record on, for ever."""
    (doubt,) = doubted.about(BROKEN_OFF)
    assert (doubt["why"], doubt["since"]) == ("its log breaks off", T0 + 5)
    assert doubt["until"] == float("inf")
