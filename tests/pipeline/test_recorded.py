"""What a log says of the slots, the options and the cost of a start, for a replay to go by."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from celery_fair.core.gate import SLACK
from celery_fair.pipeline.replay.line import Message
from celery_fair.pipeline.replay.machine import Machine
from celery_fair.pipeline.replay.scenario import Change, Fleet, KeyPlan, Plan, Scenario
from celery_fair.pipeline.silver.queues import settings
from celery_fair.pipeline.traces.recorded import recorded_scenario, recorded_trace, scenario_of
from tests.pipeline.planted import T0, Process
from tests.pipeline.staged import Silver, bronze

NEVER = 1e6


def said(*workers: Process, until: float = NEVER) -> Scenario:
    """The scenario that the records of main processes make."""
    blank = {"queue": None, "state": None, "concurrency": None}
    records = [blank | record for worker in workers for record in worker.records]
    for record in records:
        if record["state"] == "exit":
            record["kind"] = "gone"
    return scenario_of(
        sorted(records, key=lambda record: record["at"]), dict.fromkeys("abls", T0 + until)
    )


def plain(queue: str = "a", **options: Any) -> dict[str, Any]:
    """A record of kind settings."""
    return {"queue": queue, "costs": "one", "policy": "dwrr", "quantum": 1.0} | options


def worker(at: float, *settings: dict[str, Any], name: str = "w", slots: int = 2) -> Process:
    """One that consumes queues from a second after its boot on."""
    process = Process(node=f"celery@{name}").boots(at, concurrency=slots)
    for each in settings:
        process.write("settings", at + 1, **each)
    return process


def test_a_worker_counts_while_it_consumes() -> None:
    first = worker(0, plain())
    first.says("a", "unassigned", 10, quantum=None)
    first.ends(15)
    second = worker(20, plain(), name="x", slots=3)
    scenario = said(first, second)
    assert scenario.fleets == (Fleet(("a",), ((T0 + 1, 2), (T0 + 10, 0), (T0 + 21, 3))),)
    assert scenario.concurrency == 3
    assert not scenario.changes


def test_what_ends_after_the_last_start_changes_nothing() -> None:
    first = worker(0, plain())
    first.ends(15)
    assert said(first, until=14).fleets == (Fleet(("a",), ((T0 + 1, 2),)),)


def test_workers_of_other_queues_are_other_fleets() -> None:
    both = worker(0, plain("a"), plain("b"), name="both")
    one = worker(0.2, plain("b"), name="one", slots=1)
    scenario = said(both, one)
    assert scenario.fleets == (
        Fleet(("a", "b"), ((T0 + 1, 2),)),
        Fleet(("b",), ((T0 + 1.2, 1),)),
    )


def test_what_workers_have_each_counts_as_often_as_they_are() -> None:
    options = {"rate": 10.0, "burst": 5, "scope": "worker", "cap": 2}
    shared = plain("s", rate=4.0, burst=3, scope="cluster")
    first = worker(0, plain(**options), shared, name="first")
    second = worker(5, plain(**options), shared, name="second")
    scenario = said(first, second)
    once = Plan(rate=10.0, burst=5, max_in_flight=2)
    assert scenario.queues == {"a": once, "s": Plan(rate=4.0, burst=3)}
    twice = Plan(rate=20.0, burst=10, max_in_flight=4)
    assert scenario.changes == (Change(T0 + 6, "a", twice),)


def test_a_change_holds_from_its_time_on() -> None:
    process = worker(0, plain(policy="strict", level=1, costs="runtime", max_wait=30.0))
    process.write("settings", 9, **plain(policy="strict", quantum=8.0, costs="runtime"))
    scenario = said(process)
    assert (scenario.cost, scenario.plan("a")) == ("runtime", Plan(level=1))
    assert scenario.changes == (Change(T0 + 9, "a", Plan(8.0)),)
    assert scenario.last_plan("a") == Plan(8.0)
    assert scenario.with_plan("a", rate=1.0).last_plan("a") == Plan(8.0, rate=1.0)


def test_options_of_keys() -> None:
    scenario = said(
        worker(
            0,
            plain(
                key_weight=1.0,
                key_weights={"acme": 5.0},
                key_cap=3,
                key_caps={"acme": 0.0, "other": 1.0},
                key_rates={"other": 2.0},
                key_bursts={"other": 4.0},
            ),
        )
    )
    usual = KeyPlan(max_in_flight=3)
    keys = {"acme": KeyPlan(5.0), "other": KeyPlan(max_in_flight=1, rate=2.0, burst=4.0)}
    assert scenario.plan("a") == Plan(usual=usual, keys=keys)


def test_nothing_starts_while_no_worker_is_there() -> None:
    fleets = (Fleet(("a",), ((T0, 1), (T0 + 10, 0), (T0 + 20, 1))),)
    trace = [Message(T0 + at, "a", "t", None, 2.0) for at in (1, 9, 11)]
    starts = [start.at - T0 for start in Machine(Scenario("s", fleets=fleets)).run(trace)]
    assert starts == [1, 9, 20]


def test_a_fleet_starts_only_what_it_consumes() -> None:
    fleets = (Fleet(("a", "b"), ((T0, 1),)), Fleet(("b",), ((T0, 1),)))
    trace = [Message(T0 + 1, queue, "t", None, 4.0) for queue in "aabb"]
    starts = Machine(Scenario("s", fleets=fleets)).run(trace)
    assert [(start.message.queue, start.at - T0) for start in starts] == [
        ("a", 1),
        ("b", 1),
        ("a", 5),
        ("b", 5),
    ]


def test_options_change_in_the_midst() -> None:
    plans = (
        Change(4.0, "a", Plan(max_in_flight=1)),
        Change(9.0, "a", Plan(rate=0.5)),
        Change(9.0, "b", Plan(level=1)),
    )
    trace = [Message(0.0, "a", "t", None, 2.0)] * 9 + [Message(9.5, "b", "t", None, 2.0)]
    starts = list(Machine(Scenario("s", concurrency=2, changes=plans)).run(trace))
    assert [start.at for start in starts[:6]] == [0, 0, 2, 2, 4, 6]
    after = [(start.message.queue, start.at) for start in starts[6:]]
    assert after == [("a", 8), ("a", 9), ("b", 10), ("a", 11 + SLACK)]


@pytest.mark.wide
def test_slots_are_those_of_who_is_heard_of(spark: SparkSession) -> None:
    silent = worker(0, plain())
    silent.beats(3, concurrency=1)
    silent.beats(5)
    another = worker(50, plain(), name="x", slots=3)
    another.runs("late", 100, queue="a")
    another.ends(105)
    events = bronze(spark, [silent, another])
    silver = Silver.of(events)
    scenario = recorded_scenario(events, settings(events), silver.attempts, silver.processes)
    assert scenario.fleets == (
        Fleet(("a",), ((T0 + 1, 2), (T0 + 3, 1), (T0 + 5, 0), (T0 + 51, 3))),
    )


def test_a_log_as_tables(spark: SparkSession) -> None:
    """One worker of two slots: the third start is 0.1 s after the first end, and so on."""
    process = worker(0, plain("q"), plain("l", rate=1.0, burst=1, scope="worker"))
    process.beats(1.5, quanta={"q": 1.0, "l": 1.0}, parent=process.boot)
    process.says("q", "ready", 2)
    process.runs("one", 2.0, 3.0, published=1)
    process.runs("two", 2.0, 4.0, published=1)
    process.runs("waited", 5.1, 2.0, published=1, key="acme")
    process.runs("came late", 8.3, 2.0, published=8)
    process.runs("held back", 8.9, 2.0, published=1, queue="l")
    process.runs("held up", 14.0, 1.0, published=1)
    process.ends(20)
    events = bronze(spark, [process])
    silver = Silver.of(events)

    scenario = recorded_scenario(events, settings(events), silver.attempts, silver.processes)
    assert scenario.fleets == (Fleet(("l", "q"), ((T0 + 1, 2),)),)
    assert scenario.queues == {"l": Plan(rate=1.0), "q": Plan()}

    rows = recorded_trace(silver.attempts, silver.processes, scenario).collect()
    cost = {row["id"].partition("/")[0]: round(row["handover"], 6) for row in rows}
    known = {"waited": 0.1, "came late": 0.3}
    assert cost == known | dict.fromkeys(("one", "two", "held back", "held up"), 0.2)
    assert {row["id"]: row["key"] for row in rows}["waited/0"] == "acme"
