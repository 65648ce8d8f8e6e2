"""Laws of ageing: who waits rises, nobody starves, and nothing is left over."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.core.classes import Ageing, ClassScheduler
from celery_fair.core.dwrr import Flow

PATIENCE = 1.0


class Aged:
    """Queues of messages, each known by the time of its arrival, served under ageing."""

    def __init__(self, max_wait: float) -> None:
        self.scheduler = ClassScheduler()
        self.ageing = Ageing(self.scheduler, max_wait)
        self.messages: dict[Flow, deque[float]] = {}
        self.level: dict[Flow, int] = {}

    def add(self, key: str, level: int, quantum: float = 1) -> Flow:
        flow = self.scheduler.add(key, quantum, level)
        self.ageing.add(flow, level)
        self.messages[flow] = deque()
        return flow

    def remove(self, flow: Flow) -> None:
        self.ageing.remove(flow)
        self.scheduler.remove(flow)
        del self.messages[flow]

    def arrive(self, flow: Flow, now: float) -> None:
        self.messages[flow].append(now)
        if len(self.messages[flow]) == 1:
            self.scheduler.of(flow).offer(flow, 1)
            self.ageing.heads(flow, now, now)

    def serve(self, now: float) -> tuple[str, float] | None:
        """Serve one message; return its flow's key and how long it has waited."""
        self.ageing.rise(now)
        flow = self.scheduler.choose(now, PATIENCE)
        if flow is None:
            return None
        messages = self.messages[flow]
        waited = now - messages.popleft()
        self.scheduler.serve(flow, 1, 1 if messages else None)
        if messages:
            self.ageing.heads(flow, messages[0], now)
        else:
            self.ageing.runs_empty(flow)
        return flow.key, waited

    def entries(self) -> int:
        return len(self.ageing._rises)


@pytest.mark.parametrize("start", [0.0, 0.1, 1e6 + 0.1])
@pytest.mark.parametrize("max_wait", [0.1, 0.3, 5.0])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 9])
def test_after_k_times_the_wait_it_is_k_classes_higher_and_no_higher_than_the_top(
    start: float, max_wait: float, k: int
) -> None:
    aged = Aged(max_wait)
    low = aged.add("low", 0)
    rivals = [aged.add(f"class {level}", level) for level in range(1, 5)]
    aged.arrive(low, start)
    now = start + k * max_wait + max_wait / 100
    for rival in rivals:
        aged.arrive(rival, now)
    order = [served[0] for _ in range(5) if (served := aged.serve(now))]
    level = min(k, 4)
    above = [rival.key for rival in reversed(rivals[level:])]
    assert order[: len(above)] == above
    assert set(order[len(above) : len(above) + 2]) == {f"class {level}", "low"}


def test_it_has_not_risen_before_its_time() -> None:
    aged = Aged(10)
    low, high = aged.add("low", 0), aged.add("high", 1)
    aged.arrive(low, 0)
    for now in (0.0, 5.0, 9.9):
        aged.arrive(high, now)
        assert aged.serve(now) == ("high", 0)
    for _ in range(3):
        aged.arrive(high, 10.1)
    assert ("low", 10.1) in [aged.serve(10.1) for _ in range(2)]


@given(st.floats(0, 1e9), st.floats(1e-9, 1e6), st.integers(1, 5))
def test_a_rise_at_the_very_time_comes_to_an_end(start: float, wait: float, k: int) -> None:
    aged = Aged(wait)
    low = aged.add("low", 0)
    aged.add("high", 9)
    aged.arrive(low, start)
    aged.ageing.rise(start + k * wait)
    assert aged.entries() == 1


@pytest.mark.parametrize("levels", [2, 3, 5])
@pytest.mark.parametrize("max_wait", [0.5, 3.0])
def test_an_endless_backlog_above_keeps_the_lowest_waiting_no_longer_than_the_bound(
    levels: int, max_wait: float
) -> None:
    """Every class but the lowest is backlogged for ever; a message takes a tick."""
    tick = 0.01
    aged = Aged(max_wait)
    low = aged.add("low", 0)
    for level in range(1, levels):
        flow = aged.add(f"class {level}", level)
        for _ in range(5):
            aged.arrive(flow, 0)
    # On top it takes its turn: at the most one round of all that have risen there, and one more
    # in which it joins.
    bound = (levels - 1) * max_wait + 2 * levels * tick
    waits, now = [], 0.0
    for step in range(6000):
        now = step * tick
        if step % 500 == 0:
            aged.arrive(low, now)
        served = aged.serve(now)
        assert served is not None
        key, waited = served
        if key == "low":
            waits.append(waited)
        else:
            flow = next(f for f in aged.messages if f.key == key)
            aged.arrive(flow, now)
    late = [since for since in aged.messages[low] if now - since > bound]
    assert waits
    assert not late
    # The first of a burst waits for itself; who comes behind it, for those before, too.
    assert max(waits) <= bound + max_wait


def test_what_follows_an_aged_head_has_its_own_age() -> None:
    aged = Aged(10)
    low, high = aged.add("low", 0), aged.add("high", 1, quantum=0.5)
    aged.arrive(low, 0)
    aged.arrive(low, 9)
    for _ in range(9):
        aged.arrive(high, 11)
    order = [served[0] for _ in range(9) if (served := aged.serve(11))]
    assert order.count("low") == 1


def test_what_is_owed_to_an_aged_flow_keeps_no_higher_class_waiting() -> None:
    aged = Aged(10)
    low, high = aged.add("low", 0, quantum=5), aged.add("high", 1)
    aged.arrive(low, 0)
    aged.ageing.rise(11)
    assert aged.scheduler.choose(11, PATIENCE) is low
    aged.scheduler.serve(low, 1, None, owed=True)
    aged.ageing.runs_empty(low)
    for _ in range(2):
        aged.arrive(high, 11)
    assert [aged.serve(11), aged.serve(11)] == [("high", 0), ("high", 0)]


def test_a_flow_that_has_run_empty_does_not_rise() -> None:
    aged = Aged(10)
    low, high = aged.add("low", 0), aged.add("high", 1)
    aged.arrive(low, 0)
    assert aged.serve(1) == ("low", 1)
    aged.ageing.rise(100)
    for now in (100.0, 101.0):
        aged.arrive(low, now)
        aged.arrive(high, now)
        assert aged.serve(now) == ("high", 0)


def test_who_was_on_top_ages_when_a_higher_class_is_added() -> None:
    aged = Aged(10)
    low = aged.add("low", 0)
    aged.arrive(low, 0)
    high = aged.add("high", 1)
    for _ in range(9):
        aged.arrive(high, 5)
    assert aged.serve(5) == ("high", 0)
    assert ("low", 11) in [aged.serve(11) for _ in range(3)]


def test_a_class_whose_flows_are_gone_is_no_class_to_rise_to() -> None:
    aged = Aged(10)
    low, middle = aged.add("low", 0), aged.add("middle", 1)
    aged.remove(aged.add("gone", 9))
    aged.arrive(low, 0)
    for _ in range(9):
        aged.arrive(middle, 50)
    order = [served[0] for _ in range(4) if (served := aged.serve(50))]
    assert order.index("middle") < 2


def test_an_older_head_rises_at_its_own_time() -> None:
    """A message that comes back to the head of its queue may have waited longer, or shorter."""
    aged = Aged(10)
    low, high = aged.add("low", 0), aged.add("high", 1)
    aged.messages[low].extend([5.0, 5.0])
    aged.scheduler.of(low).offer(low, 1)
    aged.ageing.heads(low, 5, 5)
    aged.ageing.heads(low, 2, 6)
    for _ in range(9):
        aged.arrive(high, 12.5)
    assert "low" in {served[0] for _ in range(3) if (served := aged.serve(12.5))}


def test_a_removed_flow_is_forgotten() -> None:
    aged = Aged(10)
    low, high = aged.add("low", 0), aged.add("high", 1)
    aged.arrive(low, 0)
    aged.remove(low)
    aged.ageing.heads(low, 0, 5)
    aged.ageing.runs_empty(low)
    aged.ageing.rise(11)
    assert aged.entries() == 0
    aged.arrive(high, 11)
    assert aged.serve(11) == ("high", 0)
    again = aged.add("low", 0)
    aged.arrive(again, 11)
    assert aged.serve(11) == ("low", 0)


def test_a_held_flow_rises_and_stays_held() -> None:
    aged = Aged(10)
    low, high = aged.add("low", 0), aged.add("high", 1)
    aged.arrive(low, 0)
    aged.scheduler.of(low).hold(low)
    for _ in range(3):
        aged.arrive(high, 11)
    assert aged.serve(11) == ("high", 0)
    assert low.is_held
    aged.scheduler.of(low).release(low)
    assert ("low", 11) in [aged.serve(11), aged.serve(11)]


def test_many_heads_leave_one_entry_a_flow() -> None:
    aged = Aged(1000)
    flows = [aged.add(f"q{n}", n % 3) for n in range(9)]
    for step in range(5000):
        for flow in flows:
            aged.arrive(flow, step / 100)
        for _ in flows:
            assert aged.serve(step / 100) is not None
        assert aged.entries() <= len(flows)
    aged.ageing.rise(1e9)
    assert aged.entries() == 0
    assert not aged.ageing._next


@pytest.mark.parametrize("max_wait", [5e-324, 1e-300, 1e300])
def test_extreme_waits_do_no_harm(max_wait: float) -> None:
    aged = Aged(max_wait)
    low, high = aged.add("low", 0), aged.add("high", 65535)
    for flow in (low, high):
        aged.arrive(flow, 1e6)
    assert {aged.serve(1e6 + 1), aged.serve(1e6 + 1)} == {("low", 1), ("high", 1)}


def test_a_clock_that_goes_back_makes_nobody_younger_than_new() -> None:
    aged = Aged(10)
    low, high = aged.add("low", 0), aged.add("high", 1)
    aged.arrive(low, 100)
    aged.ageing.heads(low, 100, 50)
    aged.arrive(high, 50)
    assert aged.serve(50) == ("high", 0)
