"""The main loop, with a launcher, a supply and queues that a test holds in its hands."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import monotonic, time
from types import SimpleNamespace
from typing import Any

import pytest

from celery_fair.core.chooser import Chooser, Targets
from celery_fair.core.keys.tags import Turn
from celery_fair.core.targets import Target
from celery_fair.core.window import RefillMeter
from celery_fair.worker.dispatch.dispatcher import Choice, Dispatcher
from celery_fair.worker.dispatch.prices import Costs, Served
from celery_fair.worker.queues.held import is_leftover
from celery_fair.worker.queues.open_feeds import OpenFeeds
from celery_fair.worker.queues.pulled import Pulled
from celery_fair.worker.queues.reports import Reports
from tests.feeds import gate, ports
from tests.worker.parts import Request, Shelf, Silent, shelf


class Crew:
    """So many slots; requests are what `offer` makes of messages, unless a test says otherwise."""

    def __init__(self, slots: int) -> None:
        self.started: list[Any] = []
        self.ended: list[Any] = []
        self.departures = 0
        self.prepared: list[str] = []
        self.drops: Callable[[Any], bool] = lambda message: False
        self._slots = slots

    def slots(self) -> int:
        return self._slots

    def __len__(self) -> int:
        return len(self.started) - len(self.ended)

    @property
    def in_flight(self) -> Crew:
        return self

    @property
    def ended_count(self) -> int:
        return len(self.ended)

    @property
    def begun(self) -> int:
        return len(self.started)

    def of(self, queue: str) -> int:
        running = self.started[len(self.ended) :]
        return sum(request.message.feed.name == queue for request in running)

    def offer(self, message: Any) -> Any:
        return None if self.drops(message) else Request(message)

    def prepare(self, message: Any) -> None:
        self.prepared.append(message.headers["id"])

    def take(self, request: Any) -> bool:
        self.started.append(request)
        return True

    def launch(self) -> bool:
        self.departures += 1
        return False

    def end(self, count: int) -> None:
        """The oldest have ended."""
        self.ended += self.started[len(self.ended) :][:count]

    @property
    def ids(self) -> str:
        """Of what has started, in order."""
        return "".join(request.id for request in self.started)


class Supply:
    """Nothing comes but what a test puts there."""

    def __init__(self) -> None:
        self.sought = self.rested = 0

    def look(self, now: float) -> None: ...

    def rest(self, now: float) -> None:
        self.rested += 1

    def seek(self) -> None:
        self.sought += 1

    def flush(self) -> None: ...


class Waits:
    def __init__(self) -> None:
        self.seconds: list[tuple[str, float]] = []

    def started(self, queue: str, waited: float) -> None:
        self.seconds.append((queue, waited))


class Scene:
    """A worker's main loop, on a clock that stands still."""

    def __init__(self, slots: int, waited: Any = (), targets: Targets | None = None) -> None:
        self.now = 100.0
        self.launcher, self.supply, self.served = Crew(slots), Supply(), Served()
        self.chooser = Chooser(self.launcher, targets=targets)
        self.wake_up = Silent()
        self.reports = Reports(self.wake_up)
        self.feeds = OpenFeeds(self.chooser, lambda: self.now)
        choice = Choice(self.chooser, self.feeds, Costs(None), RefillMeter(), self.served, waited)
        supply: Any = self.supply
        launcher: Any = self.launcher
        self.dispatcher = Dispatcher(choice, self.reports, supply, launcher, clock=lambda: self.now)

    def queue(
        self, name: str, quantum: float = 1.0, kind: type[Shelf] = Shelf, **options: Any
    ) -> Shelf:
        opened = gate(quantum, **options)
        flow = self.chooser.add(name, quantum, 0, opened)
        to = ports()._replace(reports=self.reports)
        feed = shelf(name, kind=kind, flow=flow, gate=opened, ports=to)
        self.feeds.add(feed)
        return feed

    def run(self) -> str:
        assert self.dispatcher.run()
        return self.launcher.ids


def test_quanta_decide_and_nothing_starts_without_a_slot() -> None:
    scene = Scene(slots=6)
    one, two = scene.queue("one", 1), scene.queue("two", 2)
    one.put(*"abcdef")
    two.put(*"ABCDEF")

    assert scene.run() == "aABbCD"

    assert scene.run() == "aABbCD"
    scene.launcher.end(3)
    assert scene.run() == "aABbCDcEF"
    assert dict(scene.served.count) == {"one": 3, "two": 6}


def test_while_no_slot_is_free_what_comes_next_is_made_ready() -> None:
    scene = Scene(slots=2)
    one, two = scene.queue("one"), scene.queue("two")
    one.put(*"abc")
    assert scene.run() == "ab"
    two.put(*"AB")
    assert scene.run() == "ab"
    assert scene.supply.rested == 2
    assert sorted(set(scene.launcher.prepared)) == ["A", "c"]
    assert len(scene.launcher) == 2
    scene.launcher.end(2)
    assert scene.run() == "abAc"


def test_what_a_key_has_chosen_is_not_made_ready() -> None:
    """It may be somebody else's turn by then."""
    scene = Scene(slots=1)
    one = scene.queue("one")
    one.by_key = SimpleNamespace(charged=lambda item, cost: None)  # type: ignore[assignment]
    one.put(*"ab")
    assert scene.run() == "a"
    assert scene.launcher.prepared == []


def test_who_is_short_of_time_makes_nothing_ready() -> None:
    scene = Scene(slots=1)
    scene.wake_up.hurried = True
    scene.queue("one").put(*"ab")
    assert scene.run() == "a"
    assert (scene.supply.rested, scene.launcher.prepared) == (0, [])


def test_with_a_free_slot_nothing_is_made_ready() -> None:
    scene = Scene(slots=9)
    scene.queue("one").put(*"abc")
    assert scene.run() == "abc"
    assert (scene.supply.rested, scene.launcher.prepared) == (0, [])


def test_time_is_up_before_all_is_done() -> None:
    scene = Scene(slots=9)
    scene.queue("one").put(*"abc")
    assert not scene.dispatcher.run(until=scene.now)
    assert scene.launcher.ids == ""


def test_what_does_not_start_costs_its_queue_nothing() -> None:
    scene = Scene(slots=4)
    one, two = scene.queue("one"), scene.queue("two")
    scene.launcher.drops = lambda message: message.headers["id"] in "xy"
    one.put(*"xyabc")
    two.put(*"ABC")
    assert scene.run() == "aAbB"
    assert scene.served.count == {"one": 2, "two": 2}


def test_what_does_not_start_gives_its_token_back() -> None:
    scene = Scene(slots=4)
    given: list[float] = []

    class Leash:
        def take(self, now: float) -> bool:
            return len(given) < 3

        def give_back(self, now: float) -> None:
            given.append(now)

    one = scene.queue("one")
    one.gate.change(one.gate.options, Leash())  # type: ignore[arg-type]
    scene.launcher.drops = lambda message: True
    one.put("a", "b")
    scene.run()
    assert given == [100.0, 100.0]


def test_a_request_that_comes_due_is_the_head_of_its_queue() -> None:
    scene = Scene(slots=1)
    one = scene.queue("one")
    scene.launcher.drops = lambda message: message.headers["id"] == "a"
    [late, *_] = one.put(*"abc")
    one.aside.put(late, eta=True)
    assert scene.run() == "b"

    one.aside.due(late, Request(late))
    scene.launcher.end(1)
    assert scene.run() == "ba"


def test_what_comes_due_starts_in_turn() -> None:
    scene = Scene(slots=1)
    one = scene.queue("one")
    scene.launcher.drops = lambda message: message.headers["id"] in "abc"
    late = one.put(*"abcde")[:3]
    for message in late:
        one.aside.put(message, eta=True)
    assert scene.run() == "d"

    for message in late:
        one.aside.due(message, Request(message))
        scene.run()  # no slot is free
    for _ in range(4):
        scene.launcher.end(1)
        scene.run()
    assert scene.run() == "dabce"


def test_what_was_chosen_may_have_gone_back() -> None:
    """A queue that must stay subscribed to has given all of it back, as it had waited for long."""
    scene = Scene(slots=1)
    one = scene.queue("one")
    one.put("a", "b")
    scene.run()
    one.hand_back()
    scene.launcher.end(1)
    assert scene.run() == "a"
    one.put("c")
    assert scene.run() == "ac"


def test_a_request_that_comes_due_after_its_queue_was_cancelled_starts_all_the_same() -> None:
    scene = Scene(slots=1)
    one = scene.queue("one")
    [message] = one.put("a")
    one.buffer.clear()
    one.aside.put(message, eta=True)
    scene.feeds.remove(one)
    one.aside.due(message, Request(message))
    assert scene.run() == "a"


def test_what_comes_due_of_a_partition_that_was_revoked_does_not_start() -> None:
    """The broker did not take it back; it is kept to be given back later."""
    scene = Scene(slots=1)
    one = scene.queue("one")
    one.gate.fence(lambda now: True)
    [message] = one.put("a")
    one.buffer.clear()
    one.aside.put(message, eta=True)
    one.retire()
    scene.feeds.remove(one)
    assert is_leftover(one)
    one.aside.due(message, Request(message))
    assert scene.run() == ""
    assert is_leftover(one)
    one.hand_back()
    assert message.acknowledged
    assert not is_leftover(one)


def test_what_the_broker_gave_when_the_lease_was_over_does_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker may have stood still between the question and the answer."""
    scene = Scene(slots=1)
    one = scene.queue("one")
    one.gate.fence(lambda now: now >= 105.0)
    [message] = one.put("a")
    take = one.take

    def late(now: float, started: int) -> Any:
        scene.now += 10.0
        return take(now, started)

    monkeypatch.setattr(one, "take", late)
    assert scene.run() == ""
    one.hand_back()
    assert message.acknowledged
    assert not one.buffer


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_request_that_comes_due_when_its_message_has_gone_back_does_not_start(
    cancelled: bool,
) -> None:
    scene = Scene(slots=1)
    one = scene.queue("one")
    [message] = one.put("a")
    one.buffer.clear()
    one.aside.put(message, eta=True)
    if cancelled:
        scene.feeds.remove(one)
    message.requeue()
    one.aside.due(message, Request(message))
    assert scene.run() == ""


def test_nothing_of_a_dead_connection_starts() -> None:
    scene = Scene(slots=1)
    one = scene.queue("one")
    [message] = one.put("a")
    one.aside.put(message, eta=True)
    scene.feeds.remove(one)
    one.die()
    one.aside.due(message, Request(message))
    assert scene.run() == ""


def test_a_closed_dispatcher_starts_nothing() -> None:
    scene = Scene(slots=1)
    scene.queue("one").put("a")
    scene.dispatcher.close()
    assert scene.run() == ""


def test_what_comes_due_of_a_cancelled_queue_and_gets_no_slot_goes_back() -> None:
    scene = Scene(slots=1)
    one, two = scene.queue("one"), scene.queue("two")
    [message] = one.put("a")
    one.buffer.clear()
    one.aside.put(message, eta=True)
    one.retire()
    scene.feeds.remove(one)
    two.put("b")
    assert scene.run() == "b"
    one.aside.due(message, Request(message))
    assert scene.run() == "b"
    scene.dispatcher.close()
    one.hand_back()
    assert message.acknowledged


def test_it_seeks_when_slots_are_free_and_nothing_is_here() -> None:
    scene = Scene(slots=2)
    scene.queue("one").put("a")
    scene.run()
    assert scene.supply.sought == 1


def test_a_slot_that_is_free_once_what_is_aboard_has_left() -> None:
    """So it is in a pool of the process's own thread: what departs has ended."""
    scene = Scene(slots=1)

    def launch() -> bool:
        left = len(scene.launcher)
        scene.launcher.end(left)
        return left > 0

    scene.launcher.launch = launch  # type: ignore[method-assign]
    scene.queue("one").put(*"abc")
    assert scene.run() == "abc"


@pytest.mark.parametrize(("asked_for", "departures"), [("", 2), ("b", 3), ("ab", 4)])
def test_all_aboard_depart_before_an_answer_is_waited_for(asked_for: str, departures: int) -> None:
    """As they do when no slot is left, and in the end; not for a message that is here."""

    class Asked(Shelf):
        """What is first of it is there for the asking."""

        asks, empty_at = True, 0.0

        def ask_at(self, started: int) -> float:
            return 0.0 if self.buffer else math.inf

        @property
        def startable(self) -> Any:
            first = super().startable
            return None if first is None or first.headers["id"] in asked_for else first

        def next_cost(self, cost: Any) -> float | None:
            return 1.0 if self.buffer else None

    scene = Scene(slots=2)
    scene.queue("one", kind=Asked).put(*"abc")
    scene.run()
    assert scene.launcher.departures == departures


def test_waits_are_told() -> None:
    waits = Waits()
    scene = Scene(slots=2, waited=[waits.started])
    [message] = scene.queue("one").put("a")
    message.arrive(98.5)
    scene.run()
    assert waits.seconds == [("one", 1.5)]


class Parallel(Shelf):
    """Its messages wait for others of their keys, which run; nobody looks a hundred times."""

    looks = 0

    def next_cost(self, cost: Any) -> float | None:
        return None

    def take(self, now: float, started: int) -> Any:
        self.looks += 1
        assert self.looks < 100


class Serial(Shelf):
    """The key of its older message is at work."""

    @property
    def startable(self) -> Any:
        return next((item for item in self.buffer if item.headers["id"] != "held"), None)

    def take(self, now: float, started: int) -> Any:
        item = self.startable
        self.buffer.remove(item)
        return item


def has_kept_its_target(scene: Scene, feed: Shelf) -> None:
    """So that its messages need not go first as soon as they are published."""
    for _ in range(1000):
        scene.chooser.urgency.started(feed.flow, 0.0, 0.0)  # type: ignore[union-attr]


def test_since_when_a_queue_waits_is_told_by_what_may_start() -> None:
    target = Target(0.95, 5.0)
    scene = Scene(slots=9, targets=Targets({"orders": target}))
    scene.now = monotonic()
    bulk, orders = scene.queue("bulk"), scene.queue("orders", kind=Serial, target=target)
    has_kept_its_target(scene, orders)
    bulk.put("b")
    orders.put("held", **{"x-fair-published": time() - 600})
    orders.put("new", **{"x-fair-published": time()})
    assert scene.run() == "bnew"


class BehindItsKey(Shelf):
    """It is asked when the task of the key has ended."""

    asks, runs, empty_at = True, True, 0.0

    def ask_at(self, started: int) -> float:
        return math.inf if self.startable is None else 0.0

    @property
    def startable(self) -> Any:
        return None if self.runs else super().startable

    def take(self, now: float, started: int) -> Any:
        self.empty_at = now
        return None if self.runs else super().take(now, started)


def test_what_has_waited_for_its_key_waits_since_it_was_published() -> None:
    target = Target(0.95, 5.0)
    scene = Scene(slots=2, targets=Targets({"orders": target}))
    scene.now = monotonic()
    bulk, orders = scene.queue("bulk", 9), scene.queue("orders", kind=BehindItsKey, target=target)
    has_kept_its_target(scene, orders)
    orders.put("o", **{"x-fair-published": time() - 600})
    assert scene.run() == ""
    bulk.put(*"abcdef")
    assert scene.run() == "ab"
    orders.runs = False
    scene.launcher.end(1)
    assert scene.run() == "abo"


def test_what_comes_due_and_may_not_start_says_nothing_of_what_else_waits() -> None:
    target = Target(0.95, 5.0)
    scene = Scene(slots=0, targets=Targets({"orders": target}))
    orders = scene.queue("orders", kind=BehindItsKey, target=target)
    has_kept_its_target(scene, orders)
    scene.chooser.offer(orders.flow, 1.0, scene.now, scene.now, False)
    [late] = orders.put("late")
    orders.buffer.clear()
    orders.aside.put(late, eta=True)
    orders.aside.due(late, Request(late))
    scene.run()
    assert [item.message for item in orders.buffer] == [late]
    assert orders.flow not in scene.chooser.urgency.urgent  # type: ignore[union-attr]


class Few(Pulled, Shelf):
    """It has a message whenever it is asked."""

    left = 0

    def _get(self) -> int:
        self.put("a")
        return self.left


def test_what_was_taken_last_says_that_no_more_was_there() -> None:
    """So that what comes then does not count as waiting since the day before."""
    few = shelf(kind=Few, interval=1.0, eager=True)
    few.open()
    few.left = 1
    assert few.take(5.0, 0) is not None
    assert few.empty_at == 0.0
    few.left = 0
    assert few.take(7.0, 1) is not None
    assert few.empty_at == 7.0


@pytest.mark.parametrize("aimed", ["orders", "mail"])
def test_what_waits_for_its_key_holds_nobody_up(aimed: str) -> None:
    """Neither as urgent, nor for its floor."""
    target = Target(0.95, 1.0)
    scene = Scene(slots=200, targets=Targets({aimed: target}))
    scene.now = monotonic()
    options = {aimed: {"target": target}}
    orders = scene.queue("orders", kind=Parallel, **options.get("orders", {}))
    mail = scene.queue("mail", **options.get("mail", {}))
    mean = scene.chooser.urgency.floors.run_times["mail"]  # type: ignore[union-attr]
    mean.add(1.0)
    published = {"x-fair-published": time() - 10}
    orders.put("o", **published)
    mail.put(*["m"] * 150, **published)
    assert scene.run() == "m" * 150


def test_what_waits_behind_its_own_is_not_overdue() -> None:
    """By key a target is for what had nothing before it, also where more is asked for ahead."""
    target = Target(0.95, 1.0)
    scene = Scene(slots=1, targets=Targets({"jobs": target}))
    scene.now = monotonic()
    jobs = scene.queue("jobs", target=target)
    jobs.by_key = SimpleNamespace(charged=lambda item, cost: None)
    for message in jobs.put("a", "b", "c", **{"x-fair-published": time() - 600}):
        message.come_by(Turn("acme", "", 0.0, 0.0, 1.0))
    assert scene.run() == "a"
    [kept] = scene.chooser.urgency.kept(scene.now + 5)  # type: ignore[union-attr]
    assert (kept.had, kept.started, kept.missed) == (1, 0, False)
