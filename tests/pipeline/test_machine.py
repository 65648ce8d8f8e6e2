"""Replays keep the laws of the worker, whatever the trace; small ones come out as by hand."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_fair.core.gate import SLACK
from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.replay.machine import Machine, Message, Start
from celery_fair.pipeline.replay.scenario import (
    Change,
    KeyPlan,
    Plan,
    Scenario,
    named,
    parse_scenario,
)


def message(published: float, queue: str = "q", runtime: float = 1.0) -> Message:
    return Message(published, queue, "t", None, runtime)


def started(scenario: Scenario, *messages: Message) -> list[tuple[str, float]]:
    return [(start.message.queue, start.at) for start in Machine(scenario).run(messages)]


plans = st.builds(
    Plan,
    quantum=st.sampled_from([0.25, 1.0, 3.0]),
    level=st.integers(0, 1),
    rate=st.sampled_from([None, None, 0.5, 3.0]),
    burst=st.integers(1, 3),
    max_in_flight=st.sampled_from([None, None, 1, 2]),
    ahead=st.sampled_from([None, 2, 8]),
)
scenarios = st.builds(
    Scenario,
    name=st.just("any"),
    concurrency=st.integers(1, 3),
    cost=st.sampled_from(["one", "runtime"]),
    overhead=st.sampled_from([0.0, 0.1]),
    queues=st.dictionaries(st.sampled_from("abc"), plans),
)
messages = st.builds(
    message,
    published=st.floats(0, 50),
    queue=st.sampled_from("abc"),
    runtime=st.floats(0, 5),
)
traces = st.lists(messages, max_size=60).map(sorted)


@settings(max_examples=300, deadline=None)
@given(scenario=scenarios, trace=traces)
def test_laws(scenario: Scenario, trace: list[Message]) -> None:
    starts = list(Machine(scenario).run(trace))
    assert Counter(start.message for start in starts) == Counter(trace)
    assert [start.at for start in starts] == sorted(start.at for start in starts)
    assert all(start.at >= start.message.published for start in starts)
    for queue in "abc":
        mine = [start for start in starts if start.message.queue == queue]
        assert [start.message for start in mine] == [m for m in trace if m.queue == queue]
        check_gate(scenario, scenario.plan(queue), mine)
    assert busiest(scenario, starts) <= scenario.concurrency


def check_gate(scenario: Scenario, plan: Plan, mine: list[Start]) -> None:
    if plan.max_in_flight is not None:
        assert busiest(scenario, mine) <= plan.max_in_flight
    if plan.rate is not None:
        for first in range(len(mine)):
            for last in range(first, len(mine)):
                time = mine[last].at - mine[first].at
                assert last - first + 1 <= plan.burst + plan.rate * time + 1e-6


def busiest(scenario: Scenario, starts: list[Start]) -> int:
    """Return how many ran at once at the most; what takes no time at all is never beside others."""
    steps = []
    for start in starts:
        end = start.at + start.message.runtime + scenario.overhead
        if end > start.at:
            steps += [(start.at, 1), (end, -1)]
    running = most = 0
    for _, step in sorted(steps):
        running += step
        most = max(most, running)
    return most


@settings(deadline=None)
@given(trace=traces)
def test_one_slot_is_the_queue_of_the_textbook(trace: list[Message]) -> None:
    """Lindley: a message waits for what its predecessor left over."""
    trace = [m._replace(queue="q") for m in trace]
    free = 0.0
    for start in Machine(Scenario("one")).run(trace):
        assert start.at == max(free, start.message.published)
        free = start.at + start.message.runtime


def test_shares_follow_quanta() -> None:
    scenario = Scenario("s", queues={"a": Plan(3.0), "b": Plan(1.0)})
    trace = [message(0.0, queue) for queue in "ab" for _ in range(400)]
    first = Counter(queue for queue, _ in started(scenario, *trace)[:400])
    assert first == {"a": 300, "b": 100}


def test_runtime_as_cost_gives_equal_time() -> None:
    trace = [
        message(0.0, queue, runtime)
        for queue, runtime in (("a", 4.0), ("b", 1.0))
        for _ in range(400)
    ]
    starts = list(Machine(Scenario("s", cost="runtime")).run(trace))
    seconds = Counter[str]()
    for start in starts[:400]:
        seconds[start.message.queue] += int(start.message.runtime)
    assert seconds["a"] / seconds["b"] == pytest.approx(1.0, abs=0.05)


def test_leash_and_class_by_hand() -> None:
    leashed = Scenario("s", queues={"a": Plan(rate=0.5, burst=1), "b": Plan()})
    trace = [message(0.0, "a", 0.5)] * 3 + [message(0.25, "b", 1.0)]
    late = 2.0 + SLACK  # a worker's leash allows for starts that trail their decisions
    assert started(leashed, *trace) == [("a", 0.0), ("b", 0.5), ("a", late), ("a", late + 2)]
    strict = Scenario("s", queues={"a": Plan(), "b": Plan(level=1)})
    assert started(strict, *trace) == [("a", 0.0), ("b", 0.5), ("a", 1.5), ("a", 2.0)]


@pytest.mark.parametrize(
    ("ahead", "comes", "then"),
    [
        (None, 3.02, [("b", 3.01), ("a", 3.02)]),  # it has run dry, and its turn is over
        (2, 3.02, [("a", 3.02), ("b", 4.02)]),  # it had filled its window: more is on its way
        (2, 9.0, [("b", 3.04), ("a", 9.0)]),  # nothing came: four times ten milliseconds
        (3, 3.02, [("b", 3.01), ("a", 3.02)]),  # it never had
    ],
)
def test_a_queue_that_runs_dry(
    ahead: int | None, comes: float, then: list[tuple[str, float]]
) -> None:
    scenario = Scenario("", 1, queues={"a": Plan(quantum=3, ahead=ahead)})
    came = [message(0.5, "a"), message(0.5, "a"), message(0.5, "b", 0.01), message(0.5, "b", 0.01)]
    starts = started(scenario, message(0.0, "first"), *came, message(comes, "a"))
    assert [queue for queue, _ in starts[:4]] == ["first", "a", "a", "b"]
    assert [(queue, pytest.approx(at)) for queue, at in then] == starts[4:]


def test_scenarios_are_parsed() -> None:
    before = Scenario("recorded", concurrency=2, queues={"a": Plan(quantum=4.0)})
    after = parse_scenario(
        "x: a.rate=10/s b.class=1 a.b.quantum=2 concurrency=8 cost=runtime", before
    )
    assert after.name == "x"
    assert (after.concurrency, after.cost) == (8, "runtime")
    assert after.queues == {
        "a": Plan(quantum=4.0, rate=10.0),
        "b": Plan(level=1),
        "a.b": Plan(quantum=2.0),
    }


def test_limits_are_taken_away() -> None:
    limits: dict[str, Any] = {"rate": 1.0, "max_in_flight": 2}
    base = Scenario("recorded", queues={"a": Plan(**limits), "b": Plan(usual=KeyPlan(**limits))})
    text = "x: a.rate=none a.max_in_flight=none b[*].rate=none b[*].max_in_flight=none"
    after = parse_scenario(text, base)
    assert after.queues == {"a": Plan(), "b": Plan(usual=KeyPlan())}


@pytest.mark.parametrize(
    ("text", "says"),
    {
        "x: nonsense": "'nonsense' is no change",
        "x: a.size=1": "'a.size=1' is no change",
        "x: quantum=1": "'quantum=1' is no change",
        "x: a.quantum=0": "finite number above zero",
        "x: a.rate=fast": "not 'fast'",
        "x: concurrency=0": "at least 1",
        "x: cost=free": "one of one, runtime",
        "x: overhead=-1": "seconds from 0 on",
        "x: a.burst=1.5": "must be a whole number, not '1.5'",
        "x: a.quantum=abc": "must be a number, not 'abc'",
        "x: a queue.quantum=2": "put names with blanks or brackets in double quotes",
    }.items(),
)
def test_wrong_scenarios(text: str, says: str) -> None:
    with pytest.raises(PipelineError, match="scenario") as caught:
        parse_scenario(text, Scenario("recorded"))
    assert says in str(caught.value)


def test_names_in_quotes() -> None:
    text = 'x: "a queue".quantum=2 "[b]x[/b]".class=1 q["a key"].weight=3 "q: r"[*].weight=4'
    after = parse_scenario(text, Scenario("recorded"))
    assert after.queues == {
        "a queue": Plan(quantum=2.0),
        "[b]x[/b]": Plan(level=1),
        "q": Plan(usual=KeyPlan(), keys={"a key": KeyPlan(weight=3.0)}),
        "q: r": Plan(usual=KeyPlan(weight=4.0)),
    }
    assert named(text) == {
        ("a queue", None),
        ("[b]x[/b]", None),
        ("q", "a key"),
        ("q: r", None),
    }


def test_seconds_are_shared_only_if_they_are_what_is_charged() -> None:
    """Two services of real traces, both backlogged, with quanta of 3 and 1."""
    assert worst_error("one") > 0.2
    assert worst_error("runtime") <= 0.02


def worst_error(cost: str) -> float:
    """How far the seconds of a queue are off its share, of the queue that is off the most."""
    plans = {"code": Plan(quantum=3.0), "conv": Plan(quantum=1.0)}
    trace = [
        Message(0.0, queue, "inference", f"2^{math.ceil(math.log2(read))}", seconds)
        for queue in plans
        for read, seconds in requests(queue)
    ]
    waiting = Counter(message.queue for message in trace)
    seconds = dict.fromkeys(plans, 0.0)
    for start in Machine(Scenario("s", cost=cost, queues=plans)).run(trace):
        queue = start.message.queue
        seconds[queue] += start.message.runtime
        waiting[queue] -= 1
        if not waiting[queue]:  # no longer are all of them backlogged
            break
    due = sum(seconds.values()) / sum(plan.quantum for plan in plans.values())
    return max(abs(seconds[queue] / (due * plan.quantum) - 1) for queue, plan in plans.items())


def requests(service: str) -> Iterator[tuple[int, float]]:
    """Tokens read and seconds taken, ten times over."""
    path = Path(__file__).parent / "data" / f"AzureLLMInferenceTrace_{service}.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows * 10:
        read, written = int(row["ContextTokens"]), int(row["GeneratedTokens"])
        yield read, read * 0.0002 + written * 0.03


def test_a_wait_of_no_time_is_refused() -> None:
    assert parse_scenario("p: max_wait=30", Scenario("base")).max_wait == 30.0
    with pytest.raises(PipelineError, match="0"):
        parse_scenario("max_wait=0", Scenario("base"))


def test_a_target_may_be_supposed_away() -> None:
    aimed = parse_scenario("p: a.target=95%<2s a.importance=1", Scenario("base"))
    assert aimed.targets is not None
    assert aimed.targets.of == {"a": (0.95, 2.0)}
    assert parse_scenario("p: a.target=none", aimed).targets is None


def test_a_target_changes_when_it_was_set() -> None:
    """From an hour to a second, in the midst of a backlog that two queues share evenly."""
    aimed = parse_scenario("p: a.target=95%<1h concurrency=1 overhead=0", Scenario("base"))
    later = parse_scenario("p: a.target=95%<1s", aimed)
    changed = replace(aimed, changes=(Change(50.0, "a", later.queues["a"]),))
    trace = [Message(0.0, queue, "t", None, 1.0) for queue in "ab" for _ in range(80)]
    started = [(at, message.queue) for message, at in Machine(changed).run(trace)]
    before = [queue for at, queue in started if at < 50]
    after = [queue for at, queue in started if 50 < at < 90]
    assert 20 <= before.count("a") <= 30
    assert after.count("a") >= 38
