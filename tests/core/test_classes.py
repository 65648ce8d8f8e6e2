"""Laws of classes: the higher first, fair shares inside, and never idle without need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from celery_fair.core.classes import ClassScheduler
from celery_fair.core.dwrr import Flow
from tests.core.named import Named, drop
from tests.core.textbook_classes import TextbookClasses

# Multiples of 1/8 are exact in floats, so both sides compute the very same credits.
AMOUNTS = st.integers(1, 200).map(lambda eighths: eighths / 8)
KEYS = st.sampled_from("abcdef")
LEVELS = st.integers(0, 3)
PATIENCE = 3.0


class BesideTheTextbook(RuleBasedStateMachine):
    """Does everything to both, at any moment; they must agree about everything that shows."""

    def __init__(self) -> None:
        super().__init__()
        self.ours = ClassScheduler()
        self.book = TextbookClasses()
        self.flows: dict[str, Flow] = {}
        self.now = 0.0

    def both(self, method: str, key: str, *args: float) -> None:
        if key in self.flows:
            twin = self.book.flows[key]
            flow = self.flows[key]
            ours = self.ours if method == "remove" else self.ours.of(flow)
            getattr(ours, method)(flow, *args)
            getattr(self.book.of(twin), method)(twin, *args)

    @rule(key=KEYS, quantum=AMOUNTS, level=LEVELS)
    def add_or_reweight(self, key: str, quantum: float, level: int) -> None:
        if key in self.flows:
            self.both("reweight", key, quantum)
        else:
            self.flows[key] = self.ours.add(key, quantum, level)
            self.book.add(key, quantum, level)

    @rule(costs=st.dictionaries(KEYS, AMOUNTS, min_size=1))
    def offer(self, costs: dict[str, float]) -> None:
        for key, cost in costs.items():
            self.both("offer", key, cost)

    @rule(heads=st.lists(st.none() | AMOUNTS, min_size=1, max_size=12), owed=st.booleans())
    def serve(self, heads: list[float | None], owed: bool) -> None:
        for head in heads:
            self.serve_one(head, owed)

    def serve_one(self, head: float | None, owed: bool) -> None:
        chosen = self.ours.choose(self.now, PATIENCE)
        expected = self.book.choose(self.now, PATIENCE)
        assert (chosen and chosen.key) == (expected and expected.key)
        if chosen is None or expected is None:
            self.nothing_is_eligible()
            return
        self.nothing_above_is_eligible(expected.key)
        assert chosen.deficit == expected.deficit
        self.ours.serve(chosen, chosen.head or 0.0, head, owed)
        self.book.serve(expected, expected.head or 0.0, head, owed)

    def nothing_is_eligible(self) -> None:
        """Nothing was chosen: so every message is held, or waits for an owed one of a class of its
        own or above."""
        waiting = [level for level, book in self.book.classes.items() if book.waiting]
        for key, flow in self.flows.items():
            if flow.head is not None and not flow.is_held:
                assert max(waiting, default=-1) >= self.book.levels[key]

    def nothing_above_is_eligible(self, chosen: str) -> None:
        for key, flow in self.flows.items():
            if self.book.levels[key] > self.book.levels[chosen]:
                assert flow.head is None or flow.is_held
                assert not flow.is_backlogged

    @rule(key=KEYS, level=LEVELS)
    def move(self, key: str, level: int) -> None:
        if key in self.flows:
            flow, twin = self.flows[key], self.book.flows[key]
            before = flow.head, flow.is_held
            self.ours.move(flow, level)
            self.book.move(twin, level)
            assert (flow.head, flow.is_held) == before

    @rule(steps=st.lists(st.tuples(AMOUNTS, LEVELS), min_size=1, max_size=8))
    def serve_and_move(self, steps: list[tuple[float, int]]) -> None:
        for head, level in steps:
            chosen = self.ours.choose(self.now, PATIENCE)
            self.serve_one(head, owed=False)
            if chosen is not None:
                self.move(chosen.key, level)

    @rule(key=KEYS)
    def hold(self, key: str) -> None:
        self.both("hold", key)

    @rule(key=KEYS)
    def release(self, key: str) -> None:
        self.both("release", key)

    @rule(key=KEYS)
    def drop(self, key: str) -> None:
        if key in self.flows:
            flow, twin = self.flows[key], self.book.flows[key]
            drop(self.ours.of(flow), flow)
            self.book.of(twin).drop(twin)

    @rule(key=KEYS, difference=st.integers(-100, 100).map(lambda eighths: eighths / 8))
    def settle(self, key: str, difference: float) -> None:
        self.both("settle", key, difference)

    @rule(key=KEYS)
    def remove(self, key: str) -> None:
        self.both("remove", key)
        self.flows.pop(key, None)

    @rule(key=KEYS, head=st.none() | AMOUNTS)
    def remove_while_it_is_served(self, key: str, head: float | None) -> None:
        chosen, expected = (s.choose(self.now, PATIENCE) for s in (self.ours, self.book))
        assert (chosen and chosen.key) == (expected and expected.key)
        if chosen is not None:
            self.remove(chosen.key)
            self.ours.serve(chosen, 1.0, head, owed=True)
            assert self.ours.of(chosen).choose(self.now, PATIENCE) is None

    @precondition(lambda self: self.book.deadline is not None)
    @rule(passed=st.sampled_from((0.5, 1.0, 3.0)))
    def expire(self, passed: float) -> None:
        self.now += passed
        overdue = {flow.key for flow in self.ours.overdue(self.now)}
        expired = [flow.key for flow in self.ours.expire(self.now)]
        assert expired == [flow.key for flow in self.book.expire(self.now)]
        assert set(expired) == overdue

    @invariant()
    def they_agree(self) -> None:
        assert self.ours.deadline == self.book.deadline
        for flow in self.flows.values():
            twin = self.book.flows[flow.key]
            assert flow.head == twin.head
            assert flow.is_backlogged == self.book.of(twin).is_backlogged(twin)
            assert flow.is_held == (twin in self.book.of(twin).held)


BesideTheTextbook.TestCase.settings = settings(stateful_step_count=40)
TestBesideTheTextbook = BesideTheTextbook.TestCase


def offer(scheduler: ClassScheduler, flow: Flow, cost: float) -> None:
    scheduler.of(flow).offer(flow, cost)


def served(scheduler: ClassScheduler | Named, cost: float, n: int) -> Iterator[str]:
    """The first `n` flows that are served, each with its next message of the same cost there."""
    for _ in range(n):
        flow = scheduler.choose(0, PATIENCE)
        assert flow is not None
        yield flow.key
        scheduler.serve(flow, cost, cost)


@given(st.dictionaries(KEYS, AMOUNTS, min_size=1), AMOUNTS)
def test_inside_a_class_it_is_a_lone_round_robin(quanta: dict[str, float], cost: float) -> None:
    alone, classes = Named(), ClassScheduler()
    offer(classes, classes.add("below", 1000, 0), cost)
    for key, quantum in quanta.items():
        alone.offer(alone.add(key, quantum), cost)
        offer(classes, classes.add(key, quantum, 1), cost)
    assert list(served(classes, cost, 100)) == list(served(alone, cost, 100))


def test_three_backlogged_classes_are_served_in_their_order() -> None:
    scheduler, left = ClassScheduler(), {"low": 3, "high": 3, "middle": 3}
    for key, level in {"low": 0, "high": 5, "middle": 2}.items():
        offer(scheduler, scheduler.add(key, 1, level), 1)
    order = []
    while (flow := scheduler.choose(0, PATIENCE)) is not None:
        order.append(flow.key)
        left[flow.key] -= 1
        scheduler.serve(flow, 1, 1 if left[flow.key] else None)
    assert order == ["high"] * 3 + ["middle"] * 3 + ["low"] * 3


def test_a_lower_class_is_served_whole_rounds_between_messages_of_a_higher() -> None:
    scheduler = ClassScheduler()
    high = scheduler.add("high", 1, 1)
    for key, quantum in {"a": 3, "b": 1}.items():
        offer(scheduler, scheduler.add(key, quantum, 0), 1)
    low = []
    for _ in range(400):
        scheduler.of(high).offer(high, 1)
        assert scheduler.choose(0, PATIENCE) is high
        scheduler.serve(high, 1, None)
        low += served(scheduler, 1, 1)
    assert Counter(low) == {"a": 300, "b": 100}


def test_what_a_higher_class_is_owed_is_waited_for_and_no_longer_than_told() -> None:
    scheduler = ClassScheduler()
    high, low = scheduler.add("high", 2, 1), scheduler.add("low", 2, 0)
    scheduler.of(high).offer(high, 1)
    scheduler.of(low).offer(low, 1)
    scheduler.serve(high, 1, None, owed=True)

    assert scheduler.choose(0, PATIENCE) is None
    assert scheduler.deadline == PATIENCE
    scheduler.of(high).extend(high, 5.0)
    assert scheduler.expire(PATIENCE) == []
    assert scheduler.choose(PATIENCE, PATIENCE) is None
    assert scheduler.expire(5.0) == [high]
    assert scheduler.choose(5.0, PATIENCE) is low


def test_what_is_owed_to_a_lower_class_keeps_no_higher_one_waiting() -> None:
    scheduler = ClassScheduler()
    high, low = scheduler.add("high", 2, 1), scheduler.add("low", 2, 0)
    scheduler.of(low).offer(low, 1)
    scheduler.serve(low, 1, None, owed=True)
    assert scheduler.choose(0, PATIENCE) is None

    scheduler.of(high).offer(high, 1)
    assert scheduler.choose(0, PATIENCE) is high


def test_a_flow_that_comes_back_within_a_round_has_no_second_turn_in_it() -> None:
    scheduler = ClassScheduler()
    flow = scheduler.add("moved", 5, 0)
    other = scheduler.add("other", 5, 0)
    for each in (flow, other):
        scheduler.of(each).offer(each, 1)
    order = []
    for _ in range(40):
        chosen = scheduler.choose(0, PATIENCE)
        assert chosen is not None
        order.append(chosen.key)
        scheduler.serve(chosen, 1, 1)
        if chosen is flow:
            scheduler.move(flow, 1)
            scheduler.move(flow, 0)
    assert Counter(order)["other"] >= Counter(order)["moved"]


def test_a_move_keeps_a_debt() -> None:
    scheduler = ClassScheduler()
    flow = scheduler.add("late", 1, 0)
    scheduler.of(flow).offer(flow, 1)
    assert scheduler.choose(0, PATIENCE) is flow
    scheduler.serve(flow, 1, 1)
    scheduler.of(flow).settle(flow, 7)
    scheduler.move(flow, 1)
    assert flow.deficit < -5
    offer(scheduler, scheduler.add("other", 1, 1), 1)
    assert list(served(scheduler, 1, 6)) == ["other"] * 6


def test_the_turn_ahead_is_told() -> None:
    scheduler = ClassScheduler()
    flow, other = scheduler.add("dear", 1, 1), scheduler.add("cheap", 1, 1)
    scheduler.of(flow).offer(flow, 5)
    scheduler.of(other).offer(other, 1)
    assert scheduler.of(flow).rounds_ahead(flow) == 0
    assert scheduler.choose(0, PATIENCE) is other
    assert scheduler.of(flow).rounds_ahead(flow) == 4


def test_who_goes_before_is_told() -> None:
    scheduler = ClassScheduler()
    low, high = scheduler.add("low", 1), scheduler.add("high", 1, 3)
    scheduler.add("idle", 1, 5)
    for flow in (low, high):
        scheduler.of(flow).offer(flow, 1)
    assert (scheduler.level(low), scheduler.level(high)) == (0, 3)
    assert (scheduler.above(low), scheduler.above(high)) == ([high], [])
    assert scheduler.of(high).before(high) == 0


def test_one_flow_is_held_dropped_and_given_another_quantum_within_its_class() -> None:
    scheduler = ClassScheduler()
    flow, other = scheduler.add("a", 1, 1), scheduler.add("b", 1, 1)
    for each in (flow, other):
        scheduler.of(each).offer(each, 1)
    scheduler.of(flow).reweight(flow, 3)
    assert Counter(served(scheduler, 1, 400)) == {"a": 300, "b": 100}

    assert flow.is_backlogged
    scheduler.of(flow).hold(flow)
    assert flow.is_held
    assert not flow.is_backlogged
    assert set(served(scheduler, 1, 10)) == {"b"}
    scheduler.of(flow).release(flow)
    assert not flow.is_held
    assert set(served(scheduler, 1, 10)) == {"a", "b"}

    drop(scheduler.of(flow), flow)
    assert flow.head is None
    assert set(served(scheduler, 1, 10)) == {"b"}


def test_a_key_is_there_once_over_all_classes() -> None:
    scheduler = ClassScheduler()
    scheduler.add("a", 1, 0)
    with pytest.raises(ValueError, match="flow 'a' is there already"):
        scheduler.add("a", 1, 1)


def test_a_bad_quantum_adds_nothing() -> None:
    scheduler = ClassScheduler()
    with pytest.raises(ValueError, match="quantum must be a finite number above zero, not 0"):
        scheduler.add("a", 0, 1)
    scheduler.add("a", 1, 1)
