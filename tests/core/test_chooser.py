"""Which queue is next: turns, gates, ageing and prices together, on a clock of the test's own."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest

from celery_fair.core.chooser import Chooser, Ended, Targets, targets_of
from celery_fair.core.dwrr import Flow
from celery_fair.core.gate import SLACK, Gate, LocalLeash
from celery_fair.core.pricing import Price, Pricing
from celery_fair.core.targets import Target
from celery_fair.settings import QueueOptions
from tests.core.named import drop


class Slots:
    """What runs."""

    def __init__(self) -> None:
        self.ended_count = 0
        self.by_queue = Counter[str]()

    def of(self, queue: str) -> int:
        return self.by_queue[queue]

    def land(self, queue: str) -> None:
        self.by_queue[queue] -= 1
        self.ended_count += 1


class Watch:
    """What a chooser tells."""

    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []

    def held(self, queue: str, reason: str, now: float) -> None:
        self.told.append((queue, reason))

    def released(self, queue: str, now: float) -> None:
        self.told.append((queue,))


class World:
    """A chooser, and queues with endless backlogs."""

    def __init__(self, **options: Any) -> None:
        self.slots = Slots()
        self.chooser = Chooser(self.slots, **options)
        self.gates: dict[str, Gate[QueueOptions]] = {}
        self.now = 0.0

    def queue(self, name: str, quantum: float = 1, **options: Any) -> Flow:
        checked = QueueOptions(quantum, **options)
        leash = None if checked.rate is None else LocalLeash(checked.rate, checked.burst, self.now)
        gate = self.gates[name] = Gate(checked, leash)
        flow = self.chooser.add(name, quantum, checked.level, gate)
        self.chooser.offer(flow, 1.0, self.now, self.now)
        return flow

    def choose(self) -> Flow | None:
        self.chooser.advance(self.now)
        return self.chooser.choose(self.now, 0)

    def start(self, cost: float = 1.0) -> str | None:
        flow = self.choose()
        if flow is None:
            return None
        self.slots.by_queue[flow.key] += 1
        self.chooser.served(flow, cost, cost, False, self.now, self.now)
        return flow.key

    def starts(self, count: int) -> str:
        return "".join(self.start() or "-" for _ in range(count))


def test_turns_are_as_long_as_quanta() -> None:
    world = World()
    world.queue("a", 2)
    world.queue("b", 1)

    assert world.starts(6) == "aabaab"


def test_higher_classes_come_first_only_if_strict() -> None:
    fair, strict = World(), World(strict=True)
    for world in (fair, strict):
        world.queue("a")
        world.queue("b", level=1)

    assert fair.starts(4) == "abab"
    assert strict.starts(4) == "bbbb"


def test_a_head_that_waits_rises() -> None:
    world = World(strict=True, max_wait=10.0)
    low, _high = world.queue("a"), world.queue("b", level=1)

    assert world.starts(3) == "bbb"
    world.now = 10.0
    assert "a" in world.starts(2)
    world.chooser.served(low, 0, None, False, None, world.now)
    assert world.starts(2) == "bb"


def test_a_new_quantum_counts_from_the_next_turn_on() -> None:
    world = World()
    a, _ = world.queue("a"), world.queue("b")
    assert world.starts(4) == "abab"

    world.chooser.reweight(a, 3)

    assert world.starts(8) == "aaabaaab"


def test_a_cap_leaves_out_until_something_has_ended() -> None:
    world = World()
    world.queue("a", max_in_flight=1)
    b = world.queue("b")

    assert world.starts(4) == "abbb"
    assert world.chooser.wake_at == math.inf
    world.slots.land("b")
    assert world.starts(1) == "b"
    world.slots.land("a")
    assert "a" in world.starts(2)
    assert world.chooser.why(b, world.now) == (None, world.now)


def test_a_leash_is_waited_for_and_holds_nobody_else() -> None:
    world = World()
    a = world.queue("a", rate=1.0, burst=1)
    world.queue("b")

    assert world.starts(4) == "abbb"
    assert world.chooser.wake_at == pytest.approx(1 + SLACK)
    assert a.is_held
    assert world.chooser.why(a, world.now) == ("leash", world.chooser.wake_at)
    world.now = world.chooser.wake_at
    # Nobody has asked yet, so by pause and cap alone:
    assert world.chooser.why(a, world.now) == (None, world.now)
    assert world.start() == "a"


def test_pausing_and_resuming() -> None:
    world = World()
    a = world.queue("a")

    world.gates["a"].pause(True)
    assert world.start() is None
    assert world.chooser.why(a, 0) == ("paused", math.inf)
    world.chooser.regate(a, 0)
    assert world.start() is None  # it is paused still
    world.gates["a"].pause(False)
    world.chooser.regate(a, 0)
    assert world.start() == "a"
    world.chooser.regate(a, 0)  # what is not held is not let go
    assert world.start() == "a"


def test_a_paused_queue_beside_a_leash_stays_held() -> None:
    world = World()
    a = world.queue("a")
    world.queue("b", rate=1.0, burst=1)
    world.gates["a"].pause(True)

    assert world.starts(2) == "b-"
    world.now = 2.0
    assert world.starts(2) == "b-"
    assert a.is_held


def test_who_watches_is_told() -> None:
    watch = Watch()
    world = World(watches=[watch])
    a, b = world.queue("a", max_in_flight=1), world.queue("b", max_in_flight=1)

    world.starts(3)
    world.slots.land("a")
    world.start()
    world.chooser.remove(b, world.now)
    world.chooser.remove(a, world.now)

    assert watch.told == [("a", "cap"), ("b", "cap"), ("a",), ("b",)]


def test_a_queue_that_is_gone_is_not_chosen() -> None:
    for options in ({}, {"strict": True, "max_wait": 1.0}):
        world = World(**options)
        a = world.queue("a", max_in_flight=1)
        world.queue("b")
        assert sorted(world.starts(3)) == ["a", "b", "b"]
        world.chooser.remove(a, world.now)  # while it is held
        world.slots.land("a")
        assert world.starts(3) == "bbb"


def test_nobody_is_woken_for_a_leash_that_is_gone() -> None:
    for gone in (True, False):
        world = World()
        a = world.queue("a", rate=1.0, burst=1)
        assert world.starts(2) == "a-"
        assert world.chooser.wake_at < math.inf
        if gone:
            world.chooser.remove(a, world.now)
        else:
            world.gates["a"].change(QueueOptions(1), None)
            world.chooser.regate(a, world.now)
        assert world.chooser.wake_at == math.inf
        assert world.chooser.why(a, world.now) == (None, world.now)


def test_a_wait_for_what_is_owed_is_told() -> None:
    world = World()
    a = world.queue("a", 2)
    world.queue("b")
    flow = world.choose()
    assert flow is a
    world.chooser.served(a, 1, None, True, None, 0)

    assert world.chooser.choose(0, 5) is not None
    assert world.starts(1) == "b"
    assert world.chooser.choose(0, 5) is None
    assert world.chooser.wake_at == 5


# Prices -----------------------------------------------------------------------------


def ended(flow: Flow, seconds: float, price: Price) -> Ended:
    return Ended(flow, "t", None, price, seconds)


def test_without_prices_ends_change_nothing() -> None:
    world = World()
    a = world.queue("a")

    world.chooser.ended([ended(a, 5.0, Price(1.0, True))], lambda flow: None)

    assert a.deficit == 0
    assert a.quantum == 1


def test_what_was_guessed_is_converted_when_the_first_has_ended() -> None:
    pricing = Pricing()
    world = World(pricing=pricing)
    a, b = world.queue("a", 4), world.queue("b", 2)
    assert world.start() == "a"
    assert a.deficit == 3  # messages, of which one took

    world.chooser.ended([ended(a, 0.02, Price(1.0, True))], lambda flow: 0.02)

    assert pricing.unit == pytest.approx(0.02)
    assert a.quantum == pytest.approx(0.08)
    assert b.quantum == pytest.approx(0.04)
    assert a.deficit == pytest.approx(3 * 0.02)  # what it took is what it was charged
    assert a.head == pytest.approx(0.02)


def test_the_difference_is_charged() -> None:
    world = World(pricing=Pricing())
    a = world.queue("a", 4)
    world.chooser.ended([ended(a, 1.0, Price(1.0, True))], lambda flow: 1.0)
    world.start()
    before = a.deficit

    world.chooser.ended([ended(a, 1.5, Price(1.0, False))], lambda flow: 1.0)

    assert a.deficit == pytest.approx(before - 0.5)


def test_who_may_have_started_for_nothing_is_not_charged_the_difference() -> None:
    """With a target what is urgent costs no credit, neither before nor after."""
    world = World(pricing=Pricing(), targets=Targets({"a": Target(0.95, 1.0)}))
    a = world.queue("a", 4, target=Target(0.95, 1.0))
    world.chooser.ended([ended(a, 1.0, Price(1.0, True))], lambda flow: 1.0)
    before = a.deficit

    world.chooser.ended([ended(a, 9.0, Price(1.0, False))], lambda flow: 1.0)

    assert a.deficit == before


def test_quanta_follow_when_the_mean_has_halved() -> None:
    world = World(pricing=Pricing())
    a = world.queue("a", 4)
    idle = world.queue("b", 4)
    drop(world.chooser.scheduler.of(idle), idle)
    world.chooser.ended([ended(a, 1.0, Price(1.0, True))], lambda flow: None)
    assert a.head == 1.0  # of which nothing better is known
    world.start()
    credit = a.deficit

    world.chooser.ended([ended(a, 0.01, Price(1.0, False))] * 9, lambda flow: 0.01)

    assert a.quantum < 2
    assert a.deficit < credit / 2 + 9
    assert idle.quantum == a.quantum


def test_what_is_gone_is_not_settled() -> None:
    world = World(pricing=Pricing())
    a, b = world.queue("a"), world.queue("b")
    world.chooser.remove(a, 0)

    world.chooser.ended([ended(a, 9.0, Price(1.0, True))], lambda flow: 1.0)

    assert a.deficit == 0
    assert b.quantum == 9.0


def test_a_unit_that_is_about_right_stays() -> None:
    world = World(pricing=Pricing())
    a = world.queue("a")
    world.chooser.ended([ended(a, 1.0, Price(1.0, True))], lambda flow: 1.0)

    world.chooser.ended([ended(a, 1.1, Price(1.0, False))], lambda flow: 1.0)

    assert a.quantum == 1.0


def test_who_goes_before_by_class_is_told() -> None:
    world = World(strict=True)
    low, high = world.queue("low"), world.queue("high", level=3)
    assert world.chooser.above(low, 0.0) == (0, ["high"])
    assert world.chooser.above(high, 0.0) == (3, [])
    flat = World()
    flat.queue("high", level=3)
    assert flat.chooser.above(flat.queue("low"), 0.0) == (0, [])


def test_the_most_important_target_is_the_first() -> None:
    target = Target(0.95, 1.0)
    found = targets_of({"a": (target, 0), "b": (None, 9), "c": (target, 1)}, True, 0.05)
    assert found == Targets({"c": target, "a": target}, True, 0.05)
    assert found is not None
    assert list(found.of) == ["c", "a"]
    assert found.classes == {"c": 2, "a": 1}
    assert targets_of({"b": (None, 0)}) is None


def test_what_is_urgent_has_its_turn_whatever_its_credit() -> None:
    target = Target(0.95, 1.0)
    world = World(targets=Targets({"a": target}))
    a = world.queue("a", 0.01, target=target)
    world.queue("b", 4)
    world.chooser.urgency.held(a)  # type: ignore[union-attr]
    assert world.starts(6) == "bbbbbb"
    assert world.chooser.ahead(a)[0] >= 90
    world.chooser.offer(a, 1.0, -10.0, 0.0)
    assert world.chooser.ahead(a) == (0, 0)
    assert world.starts(1) == "a"
