"""Laws of leaving flows out for a while, and of flows that come from another scheduler."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from celery_fair.core.dwrr import Flow
from tests.core.named import Named

KEYS = "abcdef"
QUANTA = st.fixed_dictionaries({key: st.integers(1, 20) for key in KEYS})
SOME = st.sets(st.sampled_from(KEYS))


def backlogged(quanta: dict[str, int]) -> Named:
    scheduler = Named()
    for key, quantum in quanta.items():
        scheduler.offer(scheduler.add(key, quantum), 1)
    return scheduler


def serve(scheduler: Named, n: int) -> list[str]:
    """Serve up to `n` messages of one cost, the next of each flow always being there."""
    order = []
    while len(order) < n and (flow := scheduler.choose(0, 1)) is not None:
        order.append(flow.key)
        scheduler.serve(flow, 1, 1)
    return order


@given(QUANTA, SOME)
def test_blocking_everything_then_unblocking_some_is_blocking_the_rest(
    quanta: dict[str, int], some: set[str]
) -> None:
    blocked, rest = backlogged(quanta), backlogged(quanta)
    for key in quanta:
        blocked.hold(blocked[key])
    for key in quanta:
        if key in some:
            blocked.release(blocked[key])
        else:
            rest.hold(rest[key])
    assert serve(blocked, 100) == serve(rest, 100)


@given(QUANTA, SOME, st.integers(0, 50))
def test_the_others_share_as_if_the_held_were_not_there(
    quanta: dict[str, int], held: set[str], before: int
) -> None:
    scheduler = backlogged(quanta)
    serve(scheduler, before)
    for key in held:
        scheduler.hold(scheduler[key])
    open_ = {key: quantum for key, quantum in quanta.items() if key not in held}
    rounds = 50
    counts = Counter(serve(scheduler, rounds * sum(open_.values())))
    assert not set(counts) & held
    for key, quantum in open_.items():
        assert abs(counts[key] - rounds * quantum) <= 2 * max(open_.values()) + 2


@given(QUANTA, st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), max_size=60))
def test_it_is_idle_only_while_all_are_held(
    quanta: dict[str, int], steps: list[tuple[str, bool]]
) -> None:
    scheduler, held = backlogged(quanta), set[str]()
    for key, hold in steps:
        if hold:
            scheduler.hold(scheduler[key])
            held.add(key)
        else:
            scheduler.release(scheduler[key])
            held.discard(key)
        assert {flow.key for flow in scheduler if flow.is_held} == held
        order = serve(scheduler, 3)
        assert len(order) == (0 if held == set(KEYS) else 3)
        assert not held & set(order)


def test_holding_keeps_what_is_left_of_the_turn() -> None:
    scheduler = backlogged({"a": 10, "b": 2})
    assert serve(scheduler, 3) == ["a"] * 3
    scheduler.hold(scheduler["a"])
    assert serve(scheduler, 1) == ["b"]
    scheduler.release(scheduler["a"])
    assert serve(scheduler, 10) == [*"aaaaaaa", *"b", *"aa"]


def test_holding_keeps_a_debt_and_no_credit_beyond_the_round() -> None:
    scheduler = backlogged({"a": 10, "b": 2})
    flow = scheduler["a"]
    serve(scheduler, 3)
    scheduler.hold(flow)
    serve(scheduler, 100)
    scheduler.release(flow)
    assert flow.deficit == 10
    scheduler.hold(flow)
    scheduler.settle(flow, 14)
    scheduler.release(flow)
    assert flow.deficit == -4


def test_an_idle_flow_keeps_no_credit_though_it_is_held() -> None:
    scheduler = backlogged({"a": 10, "b": 2})
    serve(scheduler, 3)
    scheduler.hold(scheduler["a"])
    scheduler.drop(scheduler["a"])
    assert scheduler["a"].deficit == 0


@given(QUANTA, st.sampled_from(KEYS), st.integers(1, 100))
def test_what_is_let_through_bit_by_bit_gets_its_share_at_the_most(
    quanta: dict[str, int], key: str, every: int
) -> None:
    rounds, total = 30, sum(quanta.values())
    counts, _ = serve_bit_by_bit(backlogged(quanta), key, every, rounds * total)
    assert counts[key] <= (rounds + 2) * quanta[key]
    others = [counts[other] / quanta[other] for other in KEYS if other != key]
    assert max(others) - min(others) <= 2


@given(QUANTA, st.sampled_from(KEYS), st.integers(0, 100))
def test_what_is_let_through_within_its_share_is_served_at_once(
    quanta: dict[str, int], key: str, beyond: int
) -> None:
    """A long turn of another does not make it wait for the next round."""
    total = sum(quanta.values())
    every = math.ceil(2 * total / quanta[key]) + beyond
    counts, released = serve_bit_by_bit(backlogged(quanta), key, every, 30 * total)
    assert released - 1 <= counts[key] <= released


def serve_bit_by_bit(scheduler: Named, key: str, every: int, n: int) -> tuple[Counter[str], int]:
    """Serve `n` messages; a flow is let go every so often, and held again after one message."""
    flow, counts, released = scheduler[key], Counter[str](), 0
    scheduler.hold(flow)
    for step in range(n):
        if step % every == 0:
            scheduler.release(flow)
            released += 1
        (served,) = serve(scheduler, 1)
        counts[served] += 1
        if served == key:
            scheduler.hold(flow)
    return counts, released


def test_what_is_offered_while_held_is_served_after() -> None:
    scheduler = Named()
    flow = scheduler.add("a", 1)
    scheduler.hold(flow)
    scheduler.offer(flow, 2)
    assert not flow.is_backlogged
    assert scheduler.choose(0, 1) is None
    scheduler.release(flow)
    assert scheduler.choose(0, 1) is flow
    assert flow.head == 2


def test_a_flow_without_a_message_is_idle_when_released() -> None:
    scheduler = Named()
    flow = scheduler.add("a", 1)
    scheduler.hold(flow)
    scheduler.release(flow)
    assert not flow.is_backlogged
    scheduler.offer(flow, 1)
    assert scheduler.choose(0, 1) is flow


def test_holding_ends_a_wait() -> None:
    scheduler = backlogged({"a": 2, "b": 1})
    scheduler.serve(scheduler["a"], 1, None, owed=True)
    scheduler.drop(scheduler["b"])
    assert scheduler.choose(0, 1) is None
    assert scheduler.deadline == 1
    scheduler.hold(scheduler["a"])
    assert scheduler.deadline is None
    scheduler.offer(scheduler["b"], 1)
    assert scheduler.choose(0, 1) is scheduler["b"]


def test_holding_twice_and_releasing_twice_is_doing_it_once() -> None:
    scheduler = backlogged({"a": 1})
    for _ in range(2):
        scheduler.hold(scheduler["a"])
    for _ in range(2):
        scheduler.release(scheduler["a"])
    assert serve(scheduler, 3) == ["a"] * 3


def test_a_removed_flow_can_neither_be_held_nor_come_back_by_a_release() -> None:
    scheduler = backlogged({"a": 1, "b": 1})
    flow = scheduler["a"]
    scheduler.remove(flow)
    scheduler.hold(flow)
    scheduler.release(flow)
    scheduler.offer(flow, 1)
    assert not flow.is_held
    assert serve(scheduler, 3) == ["b"] * 3


def test_a_held_flow_can_be_removed_and_its_key_added_again() -> None:
    scheduler = backlogged({"a": 1})
    scheduler.hold(scheduler["a"])
    scheduler.remove(scheduler["a"])
    scheduler.offer(scheduler.add("a", 1), 1)
    assert serve(scheduler, 2) == ["a", "a"]


def removed(cost: float | None) -> Flow:
    """A flow that another scheduler had, with its head."""
    scheduler = Named()
    flow = scheduler.add("came", 4)
    if cost is not None:
        scheduler.offer(flow, cost)
        scheduler.choose(0, 1)
    scheduler.remove(flow)
    return flow


def test_an_admitted_flow_takes_part_with_its_head_and_without_credit() -> None:
    scheduler, flow = backlogged({"a": 4}), removed(3)
    scheduler.admit(flow)
    assert flow.deficit == 0
    serve(scheduler, 8)
    assert Counter(serve(scheduler, 80)) == {"a": 40, "came": 40}


def test_an_admitted_flow_without_a_head_waits_for_an_offer() -> None:
    scheduler, flow = Named(), removed(None)
    scheduler.admit(flow)
    assert scheduler.choose(0, 1) is None
    scheduler.offer(flow, 1)
    assert scheduler.choose(0, 1) is flow


def test_who_is_before() -> None:
    scheduler = backlogged({"a": 1, "b": 1, "c": 1})
    a, b, c = (scheduler[key] for key in "abc")
    assert scheduler.choose(0, 1) is a
    assert [scheduler.before(flow) for flow in (a, b, c)] == [0, 1, 2]
    scheduler.drop(a)
    assert scheduler.before(c) == 1


def test_rounds_ahead() -> None:
    scheduler = backlogged({"a": 1, "b": 1})
    a, b = scheduler["a"], scheduler["b"]
    scheduler.offer(a, 10)
    assert scheduler.choose(0, 1) is b
    assert scheduler.rounds_ahead(a) == 9
    assert scheduler.rounds_ahead(b) == 0
    scheduler.hold(a)
    assert scheduler.rounds_ahead(a) == 0
    scheduler.drop(b)
    assert scheduler.rounds_ahead(b) == 0
