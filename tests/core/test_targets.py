"""Laws of targets: in time for its own a queue goes first, earlier after misses, never for all."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.core.chooser import Chooser, Targets
from celery_fair.core.dwrr import Flow
from celery_fair.core.gate import Gate
from celery_fair.core.targets import (
    Lead,
    Target,
    arrivals,
    in_words,
    parse_target,
    slots_needed,
)
from celery_fair.core.urgency import Urgency

SOON = Target(0.95, 1.0)
LATER = Target(0.95, 100.0)


class Idle:
    ended_count = 0

    def of(self, _queue: str) -> int:
        return 0


class Limits:
    max_in_flight = None
    rate = None
    target = None


class Slot:
    """One slot that runs a task of each message for as long as it takes; time is simulated.

    Arguments:
        takes: seconds of a queue's tasks; a tenth if it is not here.
    """

    def __init__(
        self,
        targets: Targets,
        quanta: Mapping[str, float],
        takes: Mapping[str, float] | None = None,
    ) -> None:
        self.chooser = Chooser(Idle(), targets=targets)
        self.gates = {name: gate() for name in quanta}
        self.flows = {
            name: self.chooser.add(name, quantum, 0, self.gates[name])
            for name, quantum in quanta.items()
        }
        self.waiting: dict[str, deque[float]] = {name: deque() for name in quanta}
        self.started: list[tuple[str, float, float]] = []
        self.now = 0.0
        self.takes = takes or {}
        for name, seconds in self.takes.items():
            self.urgency.floors.run_times[name].add(seconds)

    @property
    def urgency(self) -> Urgency:
        assert self.chooser.urgency is not None
        return self.chooser.urgency

    def publish(self, queue: str, count: int = 1, at: float | None = None) -> None:
        for _ in range(count):
            self.waiting[queue].append(self.now if at is None else at)
        if len(self.waiting[queue]) == count:
            self.chooser.offer(self.flows[queue], 1.0, self.waiting[queue][0], self.now)

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.chooser.advance(self.now)
            flow = self.chooser.choose(self.now, 0.0)
            takes = 0.1
            if flow is not None:
                takes = self.takes.get(flow.key, takes)
                self.start(flow)
                self.urgency.floors.run_times[flow.key].add(takes)
            self.now += takes

    def start(self, flow: Flow) -> None:
        line = self.waiting[flow.key]
        wait = self.now - line.popleft()
        self.started.append((flow.key, self.now, wait))
        self.urgency.started(flow, wait, self.now)
        head, since = (1.0, line[0]) if line else (None, None)
        self.chooser.served(flow, 1.0, head, False, since, self.now)

    def count(self) -> Counter[str]:
        return Counter(queue for queue, _, _ in self.started)

    def slots_needed(self, running: int = 0) -> float:
        return self.urgency.slots_needed(self.urgency.kept(self.now), lambda _queue: running)


def gate() -> Gate[Limits]:
    return Gate(Limits(), None)


def slot(
    targets: Mapping[str, Target], *others: str, floor: float = 0.01, in_proportion: bool = False
) -> Slot:
    quanta = {**dict.fromkeys(targets, 1.0), **dict.fromkeys(others, 1.0)}
    return Slot(Targets(targets, in_proportion, floor), quanta)


def relax(slot: Slot, *queues: str) -> None:
    """Let a queue be known to start in time."""
    for _ in range(1000):
        for queue in queues:
            slot.urgency.started(slot.flows[queue], 0.0, -math.inf)


# What is written ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "target", "said"),
    [
        ("95% < 0.5s", Target(0.95, 0.5), "95% < 500ms"),
        (" 99.9 %<5min ", Target(0.999, 300.0), "99.9% < 5min"),
        ("50% < 20ms", Target(0.5, 0.02), "50% < 20ms"),
        ("90% < 1.5h", Target(0.9, 5400.0), "90% < 1.5h"),
    ],
)
def test_targets_are_read(text: str, target: Target, said: str) -> None:
    found = parse_target(text)
    assert found == pytest.approx(target)
    assert str(found) == said
    assert parse_target(said) == pytest.approx(target)


@given(st.floats(0.5, 0.999), st.floats(0.001, 2_000_000))
def test_what_is_written_reads_the_same(part: float, seconds: float) -> None:
    """An event log has it as text."""
    target = Target(round(part, 6), round(seconds, 3))
    assert parse_target(str(target)) == pytest.approx(target, rel=1e-9)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is written like '95%<0.5s'"),
        ("0.5s", "is written like"),
        ("95% < 0.5", "is written like"),
        ("95% > 0.5s", "is written like"),
        ("95% < 0.5 days", "is written like"),
        (0.5, "not 0.5"),
        (None, "not None"),
        ("100% < 1s", "not 100%"),
        ("30% < 1s", "not 30%"),
        ("95% < 0s", "not 0s"),
        ("95% < 9999h", "not 9999h"),
    ],
)
def test_nonsense_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match="target") as refused:
        parse_target(text)
    assert says in str(refused.value)


def test_times_are_told_in_their_unit() -> None:
    assert [in_words(each) for each in (0.0414, 1.0, 59.9, 90, 7200)] == [
        *("41.4ms", "1s", "59.9s", "1.5min", "2h")
    ]


# The lead -------------------------------------------------------------------------


@given(st.lists(st.floats(0, 2), min_size=1, max_size=200), st.integers(0), st.floats(0, 1))
def test_a_longer_wait_never_shortens_the_lead(waits: list[float], place: int, more: float) -> None:
    """Monotonous in the miss, and always from half of the target to all of it."""
    lead, later = Lead(SOON), Lead(SOON)
    for number, wait in enumerate(waits):
        lead.started(wait)
        later.started(wait + (more if number == place % len(waits) else 0.0))
        assert 0.5 <= lead.seconds <= later.seconds <= 1.0


def test_a_lead_forgets_and_converges() -> None:
    lead = Lead(SOON)
    assert lead.seconds == 1.0
    for _ in range(500):
        lead.started(0.1)
    assert lead.seconds == 0.5
    for _ in range(10):
        lead.started(5.0)
    assert lead.seconds == pytest.approx(1.0, abs=0.02)
    for _ in range(500):
        lead.started(0.1)
    assert lead.seconds == 0.5
    even = Lead(Target(0.9, 1.0))  # one of twenty late: as many as are to be
    for _ in range(5):
        even.started(0.1)
    before = even.seconds
    for number in range(2000):
        even.started(5.0 if number % 20 == 0 else 0.1)
    assert even.seconds == pytest.approx(before, abs=0.06)


# Who is first -----------------------------------------------------------------------


def test_what_is_urgent_goes_first_and_what_is_not_shares_by_quanta() -> None:
    made = slot({"a": LATER}, "bulk")
    relax(made, "a")
    made.publish("bulk", 2000)
    made.publish("a", 600)
    made.run(48.0)  # half of the target is not over
    count = made.count()
    assert abs(count["a"] - count["bulk"]) <= 1
    made.run(52.0)
    assert all(wait <= 100.0 for queue, _, wait in made.started if queue == "a")
    assert made.count()["a"] == 600


def test_what_was_urgent_is_owed_by_nobody() -> None:
    """Afterwards queues share by quanta as if nothing had been: what was urgent cost no credit."""
    made = slot({"a": LATER}, "bulk")
    relax(made, "a")
    made.publish("bulk", 3000)
    made.publish("a", 200, at=-60.0)
    made.run(25.0)
    assert made.count()["a"] == 200
    made.publish("a", 200)
    made.started.clear()
    made.run(20.0)
    assert made.count()["a"] == pytest.approx(100, abs=2)


def test_a_flood_without_a_target_does_not_keep_a_target_from_being_met() -> None:
    made = slot({"a": SOON}, *(f"bulk{n}" for n in range(50)))
    for n in range(50):
        made.publish(f"bulk{n}", 1000)
    for _ in range(300):
        made.publish("a")
        made.run(0.75)
    [kept] = made.urgency.kept(made.now)
    assert (kept.queue, kept.target, kept.missed) == ("a", SOON, False)
    assert kept.in_time == 1.0
    assert kept.wait is not None
    assert 0.0 < kept.wait <= 1.0
    assert kept.started == pytest.approx(60 / 0.8, abs=2)  # of the last minute
    assert made.count()["bulk0"] > 20  # though 50 share what is left


def test_what_is_due_first_goes_first_whatever_its_importance() -> None:
    """As long as all can be kept."""
    made = slot({"reports": LATER, "mail": SOON}, "bulk")
    made.publish("bulk", 5000)
    made.publish("reports", 500, at=-30.0)
    made.publish("mail")
    assert made.chooser.above(made.flows["reports"], made.now)[1] == ["mail"]
    assert made.chooser.above(made.flows["bulk"], made.now)[1] == ["reports", "mail"]
    for _ in range(40):
        made.publish("mail")
        made.run(1.0)
    assert all(wait <= 1.0 for queue, _, wait in made.started if queue == "mail")
    assert made.count()["mail"] == 41
    made.run(30.0)
    assert all(wait <= 100.0 for queue, _, wait in made.started if queue == "reports")


@pytest.mark.parametrize("first", ["a", "b"])
def test_targets_are_missed_from_the_least_important_on(first: str) -> None:
    second = "b" if first == "a" else "a"
    made = slot({first: SOON, second: SOON}, "bulk")
    made.publish("bulk", 1000)
    for _ in range(100):
        made.publish(first, 7)
        made.publish(second, 7)
        made.run(1.0)  # ten of fourteen
    kept = {each.queue: each for each in made.urgency.kept(made.now)}
    assert not kept[first].missed
    assert kept[second].missed
    assert made.count()["bulk"] == pytest.approx(10, abs=2)


def test_in_proportion_all_are_late_by_as_many_times_their_targets() -> None:
    made = slot({"a": SOON, "b": Target(0.95, 4.0)}, "bulk", in_proportion=True)
    made.publish("bulk", 1000)
    for _ in range(100):
        made.publish("a", 7)
        made.publish("b", 7)
        made.run(1.0)  # ten of fourteen
    late = {queue: wait for queue, _, wait in made.started}  # of the last one of each
    assert late["a"] > 5.0
    assert late["b"] / late["a"] == pytest.approx(4.0, rel=0.1)
    assert all(each.missed for each in made.urgency.kept(made.now))
    assert sorted(made.chooser.above(made.flows["bulk"], made.now)[1]) == ["a", "b"]


def missed_beside(made: Slot, seconds: int = 60) -> bool:
    """Whether the least important one misses, beside the most important one that has time."""
    made.publish("top", 5000, at=made.now - 20.0)
    for _ in range(seconds):
        made.publish("low")
        made.run(1.0)
    return {each.queue: each.missed for each in made.urgency.kept(made.now)}["low"]


def test_a_queue_that_may_not_start_changes_no_order() -> None:
    """Though its head is overdue: what is due first is first, as if it were not there."""
    made = slot({"top": LATER, "mid": SOON, "low": SOON})
    made.publish("mid", at=-10.0)
    made.chooser.advance(0.0)
    made.gates["mid"].pause(True)
    assert made.chooser.choose(0.0, 0.0) is None
    assert not missed_beside(made)


def test_a_queue_that_ran_empty_changes_no_order() -> None:
    """Though more of it is owed, is waited for, and does not come."""
    made = slot({"top": LATER, "mid": SOON, "low": SOON})
    made.publish("mid", at=-10.0)
    flow = made.flows["mid"]
    assert made.chooser.choose(0.0, 0.0) is flow
    made.waiting["mid"].clear()
    made.chooser.served(flow, 1.0, None, True, None, 0.0)
    made.chooser.scheduler.expire(1.0)
    assert not missed_beside(made)


def test_overdue_queues_are_between_what_is_more_and_less_important() -> None:
    made = slot({"top": LATER, "over": SOON, "low": SOON}, "bulk")
    made.publish("over", 50, at=-5.0)
    made.publish("low", 50, at=0.0)
    made.publish("top", 50, at=-50.0)
    made.run(15.0)
    order = [queue for queue, _, _ in made.started]
    assert order[:54].count("top") == 50  # and a few by the others' floors
    assert order[:106].count("over") == 50


def test_messages_that_do_not_say_when_they_were_published_go_first() -> None:
    made = slot({"a": LATER, "gone": LATER}, "bulk")
    relax(made, "a")
    made.urgency.dated(made.flows["a"], False)
    made.chooser.remove(made.flows["gone"], 0.0)
    made.urgency.dated(made.flows["gone"], False)
    made.publish("bulk", 100)
    made.publish("a", 20)
    made.run(2.2)
    assert made.count()["a"] == 20
    assert [each.is_dated for each in made.urgency.kept(made.now)] == [False]
    made.urgency.dated(made.flows["a"], True)
    made.publish("a", 10)
    made.run(2.0)
    assert made.count()["a"] < 32


def test_more_of_what_is_urgent_is_waited_for() -> None:
    """For so long as a refill may take; else each would let a long task in."""
    made = slot({"a": SOON}, "bulk")
    made.publish("bulk", 10)
    made.publish("a", at=-10.0)
    a = made.flows["a"]

    bulk = made.flows["bulk"]

    def empty(now: float) -> None:
        if made.chooser.choose(now, 0.2) is bulk:  # for its floor
            made.chooser.served(bulk, 1.0, 1.0, False, now, now)
        assert made.chooser.choose(now, 0.2) is a
        made.chooser.served(a, 1.0, None, True, None, now)
        assert made.chooser.choose(now, 0.2) is None
        assert made.chooser.wake_at == now + 0.2

    empty(0.0)
    made.chooser.offer(a, 1.0, -10.0, 0.1)
    empty(0.1)
    assert made.chooser.choose(0.2, 0.2) is None
    made.chooser.urgency.held(a)  # type: ignore[union-attr]
    assert made.chooser.choose(0.2, 0.2) is made.flows["bulk"]
    made.chooser.offer(a, 1.0, -10.0, 0.2)
    empty(0.2)
    assert made.chooser.choose(0.41, 0.2) is made.flows["bulk"]
    made.chooser.offer(a, 1.0, -10.0, 0.5)
    empty(0.5)
    made.chooser.remove(a, 0.5)
    assert made.chooser.choose(0.5, 0.2) is made.flows["bulk"]


# Nobody starves ---------------------------------------------------------------------


@pytest.mark.parametrize(("floor", "others"), [(0.01, 1), (0.05, 3), (0.1, 20)])
@pytest.mark.parametrize("quantum", [1.0, 100.0])
def test_floors_hold_under_endless_overload(floor: float, others: int, quantum: float) -> None:
    """Whatever the quanta: of those without a target, and of one whose target is far away."""
    names = [f"bulk{n}" for n in range(others)]
    quanta = {"a": 1.0, "later": quantum, "bulk0": quantum, **dict.fromkeys(names[1:], 1.0)}
    made = Slot(Targets({"a": SOON, "later": Target(0.99, 3600.0)}, floor=floor), quanta)
    relax(made, "later")
    made.publish("a", 10_000, at=-10.0)
    for name in (*names, "later"):
        made.publish(name, 1000)
    made.run(500.0)
    count = made.count()
    total = sum(count.values())
    for name in names:
        assert count[name] >= min(floor, 0.5 / others) * total - 1.5
    assert count["a"] >= 0.5 * total - 1
    assert sum(count[name] for name in names) <= min(floor * others, 0.5) * total + 2


def test_floors_are_of_time() -> None:
    """One long task takes what hundreds of short ones do, and each queue has its part."""
    takes = {"a": 0.1, "bulk": 30.0, "mails": 0.1}
    made = Slot(Targets({"a": SOON}), dict.fromkeys(takes, 1.0), takes)
    made.publish("a", 100_000, at=-10.0)
    made.publish("bulk", 100)
    made.publish("mails", 10_000)
    made.run(6000.0)
    count = made.count()
    assert count["bulk"] * 30 == pytest.approx(60, abs=30)
    assert count["mails"] * 0.1 == pytest.approx(60, abs=30)


def test_a_debt_of_floors_is_not_forgiven() -> None:
    """A short task that starts by quanta takes from it what it takes, and no more."""
    takes = {"a": 0.1, "bulk": 30.0, "mails": 0.1}
    made = Slot(Targets({"a": SOON}), dict.fromkeys(takes, 1.0), takes)
    made.publish("bulk", 100)
    made.publish("mails", 100)
    while made.count()["bulk"] < 1 or made.started[-1][0] != "mails":
        made.run(0.1)
    done = made.count()["bulk"]
    made.publish("a", 20_000, at=-10.0)
    made.run(1000.0)
    assert made.count()["bulk"] == done


def test_a_debt_is_the_queues_own() -> None:
    """Ten minutes of one that has nothing left are no other's."""
    takes = {"a": 0.1, "bulk": 600.0, "mails": 0.1}
    made = Slot(Targets({"a": SOON}), dict.fromkeys(takes, 1.0), takes)
    made.publish("a", 20_000, at=-10.0)
    made.publish("bulk")
    made.publish("mails", 1000)
    made.run(1600.0)
    assert made.count()["bulk"] == 1
    assert made.count()["mails"] == pytest.approx(100, abs=2)


def test_what_takes_an_unknown_time_has_one_slot_until_something_has_ended() -> None:
    made = slot({"a": SOON}, "bulk")
    made.urgency.floors.run_times["a"].add(1.0)
    made.publish("a", 20_000, at=-10.0)
    made.publish("bulk", 100)

    def start(count: int) -> int:
        for _ in range(count):
            flow = made.chooser.choose(0.0, 0.0)
            assert flow is not None
            made.start(flow)
        return made.count()["bulk"]

    assert start(1000) == 1
    made.urgency.floors.run_times["bulk"].add(5.0)
    assert start(1) == 2
    assert start(900) == 4  # twenty seconds of nearly two thousand, the first one's among them


def test_a_less_important_target_has_a_floor_too() -> None:
    made = slot({"a": SOON, "b": SOON, "c": SOON}, "bulk", floor=0.05)
    for queue in ("a", "b", "c"):
        made.publish(queue, 5000, at=-10.0)
    made.publish("bulk", 1000)
    made.run(200.0)
    count = made.count()
    for queue in ("b", "c", "bulk"):
        assert count[queue] == pytest.approx(0.05 * sum(count.values()), abs=3)


def test_a_floor_is_not_saved_up() -> None:
    """After an hour without any of it, nothing has a claim to more than its floor."""
    made = slot({"a": SOON}, "bulk", "mails")
    made.publish("a", 2000, at=-10.0)
    made.publish("mails", 1000)
    made.run(100.0)
    made.publish("bulk", 500)
    made.run(50.0)
    assert made.count()["bulk"] <= 7


def test_what_a_queue_gets_by_its_quanta_counts_for_its_floor() -> None:
    """What comes rarely is never late by a floor of what has the rest of the time to itself."""
    made = slot({"a": SOON}, "bulk")
    made.publish("bulk", 1000)
    for _ in range(15):
        made.run(1.0)
        made.publish("a", 2)
    made.run(1.0)
    order = "".join(queue[0] for queue, _, _ in made.started)
    assert order.count("a") == order.count("aa") * 2 == 30


def test_a_queue_without_messages_has_no_floor() -> None:
    made = slot({"a": SOON}, "bulk", "idle")
    made.publish("a", 2000, at=-10.0)
    made.publish("bulk", 3)
    made.run(150.0)
    assert made.count()["bulk"] == 3
    assert made.count()["a"] >= 1490


def test_a_queue_that_is_held_back_has_no_floor_until_it_is_released() -> None:
    names = [f"bulk{n}" for n in range(50)]
    made = slot({"a": SOON}, *names)
    made.publish("a", 5000, at=-10.0)
    for name in names:
        made.publish(name, 100)
    for name in names[1:]:
        made.gates[name].pause(True)
    made.run(100.0)
    count = made.count()
    assert count["bulk0"] <= 12 + 50  # until it was found out, each had a turn
    for name in names[1:]:
        made.gates[name].pause(False)
        made.chooser.regate(made.flows[name], made.now)
    made.run(100.0)
    assert min(made.count()[name] for name in names) >= 9


def test_a_queue_with_a_target_goes_on_when_it_is_released() -> None:
    made = slot({"a": SOON}, "bulk")
    made.publish("bulk", 1000)
    made.gates["a"].pause(True)
    made.publish("a", 5, at=-10.0)
    made.run(5.0)
    assert not made.count()["a"]
    assert made.chooser.above(made.flows["bulk"], made.now)[1] == []
    made.gates["a"].pause(False)
    made.chooser.regate(made.flows["a"], made.now)
    made.run(0.75)
    assert made.count()["a"] == 5
    made.gates["a"].pause(True)
    made.publish("a")
    made.run(2.0)
    made.waiting["a"].clear()
    made.chooser.served(made.flows["a"], 0.0, None, False, None, made.now)
    made.chooser.regate(made.flows["a"], made.now)
    assert made.count()["a"] == 5


def test_another_target_holds_for_what_waits() -> None:
    """And for a queue without a message, and one that comes again."""
    made = slot({"a": LATER, "empty": LATER}, "bulk")
    relax(made, "a", "empty")
    made.publish("bulk", 100)
    made.publish("a", 100)
    made.run(1.0)
    assert 4 <= made.count()["a"] <= 6  # by quanta
    for queue in ("a", "empty"):
        made.urgency.aim(queue, SOON, made.now)
    made.run(1.0)
    assert 13 <= made.count()["a"] <= 16
    made.urgency.aim("a", LATER, made.now)
    relax(made, "a")
    made.run(1.0)
    assert 17 <= made.count()["a"] <= 21
    assert [kept.target for kept in made.urgency.kept(made.now)] == [LATER, SOON]
    made.chooser.remove(made.flows["empty"], made.now)
    made.chooser.add("empty", 1.0, 0, gate())
    assert [kept.target for kept in made.urgency.kept(made.now)] == [LATER, SOON]


def test_a_queue_without_a_target_gets_none() -> None:
    made = slot({"a": LATER}, "bulk")
    for queue, target in (("bulk", SOON), ("a", None), ("bulk", None), ("a", LATER)):
        made.urgency.aim(queue, target, 0.0)
    (kept,) = made.urgency.kept(0.0)
    assert (kept.queue, kept.target) == ("a", LATER)


def test_a_floor_of_nobody_is_left() -> None:
    made = slot({"a": SOON}, "bulk")
    made.publish("a", 100, at=-10.0)
    made.publish("bulk")
    made.run(0.05)
    assert [queue for queue, _, _ in made.started] == ["a"]
    made.chooser.remove(made.flows["bulk"], made.now)
    made.run(1.0)
    assert len(made.started) >= 10
    made.urgency.held(made.flows["a"])
    made.urgency.runs_empty(made.flows["a"])
    made.urgency.released(made.flows["a"], made.now)
    assert made.chooser.choose(made.now, 0.0) is made.flows["a"]  # by quanta


def test_a_head_that_is_looked_at_too_late_or_for_nothing_rises_all_the_same() -> None:
    """A queue's head may be published before the one that was expected, or be gone."""
    made = slot({"a": SOON, "b": SOON}, "bulk")
    relax(made, "a", "b")
    made.publish("bulk", 100)
    made.publish("a", at=0.0)
    made.publish("b", at=0.0)
    made.chooser.offer(made.flows["a"], 1.0, -0.3, 0.0)
    made.chooser.served(made.flows["b"], 0.0, None, False, None, 0.0)
    made.waiting["b"].clear()
    made.chooser.advance(0.25)
    assert made.chooser.above(made.flows["bulk"], 0.25)[1] == ["a"]
    made.chooser.offer(made.flows["a"], 1.0, 0.2, 0.25)
    made.chooser.advance(0.6)
    assert made.chooser.above(made.flows["bulk"], 0.6)[1] == []
    made.chooser.advance(0.75)
    assert made.chooser.above(made.flows["bulk"], 0.75)[1] == ["a"]


# Queues come and go -----------------------------------------------------------------


def test_queues_that_go_and_come_keep_what_was_learned() -> None:
    made = slot({"a": SOON, "b": SOON}, "bulk")
    relax(made, "a")
    lead = {each.queue: each.lead for each in made.urgency.kept(0.0)}
    assert lead == {"a": 0.5, "b": 1.0}
    for queue in ("a", "b"):
        made.publish(queue, 10, at=-10.0)
    made.publish("bulk")
    made.run(0.3)
    for queue in ("a", "b", "bulk"):
        made.chooser.remove(made.flows[queue], made.now)
    assert made.urgency.kept(made.now) == []
    made.flows["a"] = made.chooser.add("a", 1.0, 0, gate())
    [kept] = made.urgency.kept(made.now)
    assert 0.5 < kept.lead < 0.7
    assert kept.started == 2  # and one of the other's floor


def test_a_queue_that_went_is_not_chosen_when_its_head_would_have_become_urgent() -> None:
    """As when a connection is lost: its queues go, and others of these names come."""
    made = slot({"a": SOON}, "bulk")
    relax(made, "a")
    made.publish("bulk", 3)
    made.publish("a")
    made.chooser.remove(made.flows["a"], 0.1)
    made.chooser.advance(5.0)
    assert made.chooser.choose(5.0, 0.0) is made.flows["bulk"]


def test_what_went_while_it_was_served_leaves_nothing() -> None:
    made = slot({"a": SOON}, "bulk")
    for queue in ("a", "bulk"):
        made.publish(queue, 2)
        made.chooser.remove(made.flows[queue], 0.0)
        made.urgency.started(made.flows[queue], 0.5, 0.0)
        made.chooser.served(made.flows[queue], 1.0, 1.0, False, 0.0, 0.0)
    assert made.urgency.kept(0.0) == []
    made.run(1.0)
    assert made.started == []


def test_an_overdue_head_counts_before_it_has_started() -> None:
    made = slot({"a": SOON}, "bulk")
    [none] = made.urgency.kept(5.0)
    assert (none.wait, none.in_time, none.missed) == (None, None, False)
    made.publish("a", at=0.0)
    [kept] = made.urgency.kept(5.0)
    assert (kept.started, kept.wait, kept.in_time, kept.missed) == (1, 5.0, 0.0, True)
    assert made.chooser.above(made.flows["bulk"], 5.0)[1] == ["a"]
    made.urgency.heads(made.flows["a"], 0.0, 5.0, is_here=False)  # there may be one
    assert made.chooser.above(made.flows["bulk"], 5.0)[1] == ["a"]
    assert [each.started for each in made.urgency.kept(5.0)] == [0]
    made.run(0.1)
    assert made.chooser.above(made.flows["bulk"], 5.1)[1] == []


# How many slots would do --------------------------------------------------------------


def test_arrivals_are_told_by_what_has_started() -> None:
    assert arrivals([], 1.0) == arrivals([5.0], 1.0) == 0.0
    assert arrivals([0.5 * n for n in range(101)], 1.0) == pytest.approx(2.0)
    assert arrivals([7.0] * 51, 5.0) == pytest.approx(8.0)
    assert arrivals([float(n) for n in range(61)], 3600.0) == pytest.approx(0.8)
    assert arrivals([-1e9, *(0.5 * n for n in range(101))], 1.0) == pytest.approx(2.0, rel=0.05)


def test_slots_that_would_do() -> None:
    assert slots_needed(0.0) == 0.0
    assert slots_needed(99.0, set_apart=0.01) == pytest.approx(110)


def test_slots_are_needed_by_what_runs_for_longer_than_is_looked_back() -> None:
    made = slot({"a": SOON}, "bulk")
    assert made.slots_needed() == 0.0
    assert made.slots_needed(running=9) == 12.0
    made.publish("bulk")  # and has a floor
    assert made.slots_needed(running=99) == pytest.approx(110)


def test_a_burst_needs_no_more_slots_than_it_has_messages() -> None:
    made = Slot(Targets({"a": SOON}), {"a": 1.0}, {"a": 60.0})
    for _ in range(9):
        made.urgency.started(made.flows["a"], 0.5, 0.0)
    assert made.slots_needed() == 12.0


def test_of_a_thousand_messages_a_second_less_than_a_minute_is_known() -> None:
    made = Slot(Targets({"a": LATER}), {"a": 1.0}, {"a": 0.1})
    for number in range(5000):
        made.urgency.started(made.flows["a"], 0.5, number / 1000)
    made.now = 5.0
    assert made.slots_needed() == pytest.approx(110, rel=0.02)


def test_by_key_slots_are_needed_by_all_messages() -> None:
    made = Slot(Targets({"a": SOON}), {"a": 1.0}, {"a": 10.0})
    for number in range(100):
        made.urgency.started(made.flows["a"], 0.5, 0.1 * number, counts=number == 0)
    made.now = 10.0
    assert made.slots_needed() == pytest.approx(110, rel=0.02)


def test_floors_of_queues_with_a_target_are_in_their_work() -> None:
    """As of a hundred partitions."""
    made = slot({str(n): SOON for n in range(100)})
    for n in range(100):
        made.publish(str(n), at=-10.0)
    assert made.slots_needed(running=1) == pytest.approx(110)


@given(st.floats(0, 1000), st.floats(0, 100))
def test_more_work_never_takes_fewer_slots(work: float, more: float) -> None:
    needed = slots_needed(work)
    assert work <= needed <= slots_needed(work + more)
    assert slots_needed(work + more) <= needed + slots_needed(more) + 1e-9  # of two workers


def test_what_is_just_kept_is_not_missed() -> None:
    """Parts of a hundred are no sums of halves: 118 of 125 are 94.4 %, nearly."""
    made = slot({"a": Target(0.944, 1.0)})
    for number in range(125):
        made.urgency.started(made.flows["a"], 2.0 if number < 7 else 0.5, 0.0)
    [kept] = made.urgency.kept(0.0)
    assert (kept.started, kept.missed, kept.wait) == (125, False, 0.5)


def test_a_head_that_is_overdue_counts_among_the_others() -> None:
    made = slot({"a": Target(0.95, 1.0)})
    for _ in range(9):
        made.urgency.started(made.flows["a"], 30.0, 0.0)
    made.urgency.heads(made.flows["a"], -1.2, 0.0)
    [kept] = made.urgency.kept(0.0)
    assert (kept.started, kept.wait, kept.in_time) == (10, 30.0, 0.0)


def test_by_key_a_target_is_for_the_first_of_each() -> None:
    made = slot({"a": SOON})
    for _ in range(50):
        made.urgency.started(made.flows["a"], 500.0, 70.0, counts=False)
        made.urgency.started(made.flows["a"], 0.1, 70.0)
    [kept] = made.urgency.kept(70.0)
    assert (kept.started, kept.in_time) == (50, 1.0)
    assert kept.load > 0
    made.urgency.started(made.flows["a"], 0.1, 200.0)
    [later] = made.urgency.kept(200.0)
    assert later.started == 1
