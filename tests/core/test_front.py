"""Laws of the choice between a queue's front and its lanes (see `celery_fair.core.keys.front`)."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.core.keys.front import (
    LOOK,
    SORTING,
    Front,
    FrontAndLanes,
    LimitedLanes,
    Move,
    Permit,
    Pick,
    Take,
)
from celery_fair.core.keys.lanes import Key
from celery_fair.core.keys.tags import TenantTags, Turn

Message = tuple[int, Key]


def alike(_: str) -> float:
    return 1.0


class Broker:
    """A front and lanes, on a clock that a test moves."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self.now = 100.0
        self.published = 0
        self.front: deque[Message] = deque()
        self.lanes: dict[int, deque[Message]] = {}
        self.held: Message | None = None  # the front's first
        self.put(*keys)

    def message(self, key: str) -> Message:
        self.published += 1
        tenant, _, part = key.partition("/")
        return self.published, (tenant, part)

    def put(self, *keys: str) -> None:
        self.front.extend(map(self.message, keys))

    def put_into(self, number: int, *keys: str) -> None:
        self.lanes.setdefault(number, deque()).extend(map(self.message, keys))


class Worker:
    """Does what it is told to, of one queue.

    Arguments:
        moves: whether the broker takes what is moved.
    """

    def __init__(self, broker: Broker, choice: FrontAndLanes | None = None) -> None:
        self.broker = broker
        self.choice = choice or FrontAndLanes(TenantTags(alike, lambda: 1.0))
        self.moves = True
        self.seconds = 0.0  # that a move takes
        self.started: list[Message] = []
        self.steps: list[object] = []
        self.on_their_way: deque[tuple[Pick, Message | None, int]] = deque()

    def watch(self) -> None:
        for number, lane in self.broker.lanes.items():
            if lane:
                self.choice.found(number, len(lane))

    def next(self, most: int = 1) -> Message | None:
        """Start a message, or none."""
        before = len(self.started)
        choice, broker = self.choice, self.broker
        choice.begin(broker.now)
        while len(self.started) == before:
            if self.on_their_way:
                self._came(*self.on_their_way.popleft())
                continue
            step = choice.step(1.0, broker.now)
            self.steps.append(step)
            assert len(self.steps) < 10_000, "it does not end"
            if step is None:
                return None
            self._do(step, most)
        return self.started[-1]

    def _do(self, step: Front | Move | Take | Turn, most: int) -> None:
        choice, broker = self.choice, self.broker
        if step is Front.GET:
            broker.held = broker.front.popleft() if broker.front else None
            choice.front_is(broker.held and broker.held[1], len(broker.front), broker.now)
        elif step is Front.COUNT:
            choice.counted(len(broker.front))
        elif isinstance(step, Move):
            self._move(step)
        elif isinstance(step, Take):
            picks = [step.pick, *(choice.more(most - 1, 1.0) if step.sure else ())]
            if choice.counts(broker.now):
                choice.counted(len(broker.front))
            for pick in picks:
                lane = broker.lanes.get(pick.number)
                message = lane.popleft() if lane else None
                self.on_their_way.append((pick, message, len(lane or ())))
        else:
            assert isinstance(step, Turn)
            assert broker.held is not None
            message, broker.held = broker.held, None
            self.starts(message, step)

    def _move(self, step: Move) -> None:
        broker, message = self.broker, self.broker.held
        assert message is not None
        broker.now += self.seconds
        if not self.moves:
            self.choice.moved(None, broker.now)
            return
        taken = {*self.choice.lanes.depths, *(n for n, lane in broker.lanes.items() if lane)}
        empty = min(set(range(len(taken) + 1)) - taken)
        number = empty if step.number is None else step.number
        broker.lanes.setdefault(number, deque()).append(message)
        broker.held = None
        self.choice.moved(number, broker.now)

    def _came(self, pick: Pick, message: Message | None, left: int) -> None:
        turn = self.choice.came(pick, message and message[1], left)
        assert (turn is None) == (message is None)
        if message is not None and turn is not None:
            self.came(message, turn, pick.number)

    def came(self, message: Message, turn: Turn, number: int) -> None:
        self.starts(message, turn)

    def starts(self, message: Message, turn: Turn) -> None:
        assert turn[:2] == message[1]
        assert turn.charged == 1.0
        self.started.append(message)

    def all(self) -> list[str]:
        """Start all that may; return whose messages."""
        before = len(self.started)
        while self.next() is not None:
            self.broker.now += 2 * LOOK
            self.watch()
        return [tenant for _, (tenant, _) in self.started[before:]]


# What starts -----------------------------------------------------------------------------

ACTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("front", "lane")), st.sampled_from("abc"), st.integers(1, 3)),
        st.tuples(st.sampled_from(("start", "look", "others")), st.just(""), st.integers(1, 4)),
        st.tuples(st.sampled_from(("broken", "mended", "reopen")), st.just(""), st.just(0)),
    ),
    max_size=60,
)


@given(ACTS, st.randoms(use_true_random=False))
def test_each_message_starts_once(acts: list[tuple[str, str, int]], chance: random.Random) -> None:
    """Whatever is published where, and whoever else takes messages."""
    broker = Broker()
    worker, gone = Worker(broker), 0
    for act, key, count in acts:
        broker.now += chance.choice((0.0, LOOK, SORTING))
        number = chance.randrange(4)
        if act == "front":
            broker.put(*count * [f"{key}/{count}"])
        elif act == "lane":
            broker.put_into(number, *count * [key])
        elif act == "others" and broker.lanes.get(number):
            gone += 1
            broker.lanes[number].popleft()
        elif act == "start":
            worker.next(count)
        elif act == "look":
            worker.watch()
        elif act == "reopen" and number in worker.choice.lanes.depths:
            worker.choice.reopen(number)
        else:
            worker.moves = act != "broken"
    worker.moves = True
    broker.now += 1.0
    worker.watch()
    worker.all()
    assert len({number for number, _ in worker.started}) == len(worker.started)
    assert len(worker.started) == broker.published - gone
    assert not len(worker.choice.tags.tenants)  # nothing is left of what is over
    assert not worker.choice.lanes.owners()
    assert worker.choice.left == 0


def test_a_flood_in_the_front_is_moved_away_when_it_is_anothers_turn() -> None:
    broker = Broker([*500 * "f", "q"])
    broker.put_into(0, *9 * "g")
    worker = Worker(broker)
    worker.watch()
    started = [worker.next() for _ in range(4)]
    assert sorted(message[1][0] for message in started if message) == ["f", "f", "g", "q"]
    assert len(broker.lanes[1]) >= 498


def test_a_quiet_key_is_next_however_many_have_lanes() -> None:
    worker = Worker(Broker())
    for number in range(20):
        worker.broker.put_into(number, *10 * [f"f{number}"])
    worker.watch()
    for _ in range(50):
        worker.next()
    worker.broker.put("quiet")
    worker.broker.now += 2 * LOOK
    started = [worker.next(), worker.next()]
    assert "quiet" in [message and message[1][0] for message in started]


@given(st.integers(1, 4))
def test_shares_are_by_weight(weight: int) -> None:
    choice = FrontAndLanes(TenantTags(lambda key: weight if key == "a" else 1.0, lambda: 1.0))
    worker = Worker(Broker(), choice)
    worker.broker.put_into(0, *200 * "a")
    worker.broker.put_into(1, *200 * "b")
    worker.watch()
    counts = Counter(message[1][0] for _ in range(100) if (message := worker.next()))
    assert counts["a"] == pytest.approx(100 * weight / (weight + 1), abs=2)


def test_parts_share_what_their_tenant_gets() -> None:
    worker = Worker(Broker())
    for number, key in enumerate(("a/1", "a/2", "b")):
        worker.broker.put_into(number, *30 * [key])
    worker.watch()
    counts = Counter(worker.next() and worker.started[-1][1] for _ in range(40))
    assert counts["b", ""] == pytest.approx(20, abs=3)
    assert counts["a", "1"] == pytest.approx(counts["a", "2"], abs=2)


def test_a_message_is_charged_to_whose_it_is() -> None:
    worker = Worker(Broker())
    worker.broker.put_into(0, *9 * "b")
    worker.choice.found(0, 9, ("a", ""))
    worker.next(most=2)
    tags = worker.choice.tags.tenants
    assert "a" not in tags
    assert (tags.tag("b") or 0.0) >= 1.0


def test_a_lane_that_another_worker_has_emptied() -> None:
    """Its key is charged nothing, and waits no more."""
    worker = Worker(Broker())
    worker.choice.found(0, 1, ("a", ""))
    assert worker.next() is None
    assert "a" not in worker.choice.tags.tenants


def test_a_lane_of_which_it_is_not_known_any_more_whose_it_is() -> None:
    worker = Worker(Broker())
    worker.broker.put_into(0, "b")
    worker.choice.found(0, 1, ("a", ""))
    worker.choice.reopen(0)
    assert "a" not in worker.choice.tags.tenants
    assert worker.all() == ["b"]


# How the front is looked into -----------------------------------------------------------------


def test_the_front_is_looked_into_first_and_once() -> None:
    worker = Worker(Broker())
    assert worker.next() is None
    assert worker.steps == [Front.GET, None]


def test_while_lanes_have_messages_an_empty_front_is_only_counted() -> None:
    worker = Worker(Broker())
    worker.broker.put_into(0, *"aaa")
    worker.watch()
    for _ in range(3):
        worker.next()
        worker.broker.now += 2 * LOOK
    assert [step for step in worker.steps if step is Front.GET] == [Front.GET]
    worker.broker.put("b")
    assert worker.next() == (4, ("b", ""))


def test_the_front_is_looked_into_while_all_lanes_wait() -> None:
    worker = Worker(Broker())
    worker.broker.put_into(0, "a")
    worker.choice.found(0, 1, ("a", ""))
    assert worker.choice.step(1.0, worker.broker.now) is Front.GET
    worker.choice.front_is(None, 0, worker.broker.now)
    worker.choice.tags.tenants.hold("a")
    assert worker.next() is None  # it was looked into just now
    worker.broker.now += 2 * LOOK
    worker.broker.put("b")
    assert worker.next() == (2, ("b", ""))
    assert Front.COUNT in worker.steps


def test_several_are_taken_only_where_nothing_in_front_comes_before() -> None:
    worker = Worker(Broker())
    worker.broker.put_into(0, *"aaaaaa")
    worker.choice.found(0, 6, ("a", ""))
    worker.choice.front_is(None, 0, worker.broker.now)
    worker.broker.now += 2 * LOOK  # and is counted with what is asked now
    worker.next(most=3)
    assert len(worker.on_their_way) == 0
    worker.next(most=3)
    assert len(worker.on_their_way) == 2


def test_no_more_are_taken_than_are_there_nor_of_a_limited_key() -> None:
    worker = Worker(Broker())
    worker.choice.found(0, 2, ("a", ""))
    assert len(worker.choice.more(9, 1.0)) == 2
    limited = limited_lanes(Desk({"a": 1}))
    limited.found(0, 2, ("a", ""))
    assert limited.more(9, 1.0) == []


def test_nor_past_the_fronts_first_message() -> None:
    worker = Worker(Broker())
    worker.choice.front_is(("a", ""), 0, worker.broker.now)
    assert worker.choice.more(9, 1.0) == []


# How the front is sorted ------------------------------------------------------------------


def test_one_is_moved_however_slow_the_broker_is_and_more_while_there_is_time() -> None:
    for seconds, moved in ((2 * SORTING, 1), (SORTING / 3.5, 4)):
        worker = Worker(Broker([*10 * "a"]))
        worker.broker.put_into(0, "b")
        worker.choice.found(0, 1, ("b", ""))
        worker.choice.tags.tenants.arrive("a")
        worker.choice.tags.tenants.settle("a", 0.0, 9.0)  # it is b's turn
        worker.seconds = seconds
        worker.next()
        assert sum(isinstance(step, Move) for step in worker.steps) == moved


def test_what_cannot_be_moved_stays_and_its_turn_comes() -> None:
    worker = Worker(Broker("aa"))
    worker.broker.put_into(0, "b")
    worker.choice.found(0, 1, ("b", ""))
    worker.moves = False
    assert sorted(worker.all()) == ["a", "a", "b"]


def test_a_keys_messages_are_moved_to_the_lane_that_it_has() -> None:
    worker = Worker(Broker("bb"))
    worker.broker.put_into(7, "b")
    worker.broker.put_into(8, "c")
    worker.choice.found(7, 1, ("b", ""))
    worker.choice.found(8, 1, ("c", ""))
    worker.choice.tags.tenants.settle("b", 0.0, 9.0)
    assert worker.next() == (4, ("c", ""))
    assert len(worker.broker.lanes[7]) == 3


def test_what_is_given_back_is_known_no_more() -> None:
    choice = FrontAndLanes(TenantTags(alike))
    choice.front_is(("a", ""), 3, 0.0)
    assert choice.left == 4
    for _ in range(2):
        choice.front_is(None, 3, 0.0)
    assert (choice.left, len(choice.tags.tenants)) == (3, 0)


def test_who_begins() -> None:
    """The first message of a tenant that has nothing else waiting says so."""
    begins = []

    class Told(Worker):
        def starts(self, message: Message, turn: Turn) -> None:
            begins.append(turn.begins)
            super().starts(message, turn)

    worker = Told(Broker("ab"))
    worker.broker.put_into(0, "a")
    worker.choice.found(0, 1, ("a", ""))
    worker.all()
    assert begins == [False, True, False]


# Tenants that may start nothing ------------------------------------------------------------


class Desk:
    """Lets so many of a tenant's messages run at once."""

    def __init__(self, caps: dict[str, int]) -> None:
        self.caps = caps
        self.running: Counter[str] = Counter()
        self.asked: list[str] = []

    def is_limited(self, tenant: str) -> bool:
        return tenant in self.caps

    def may(self, tenant: str) -> Permit | float:
        self.asked.append(tenant)
        if not self.is_limited(tenant):
            return Permit()
        if self.running[tenant] >= self.caps[tenant]:
            return 1e9
        self.running[tenant] += 1
        return Permit("place", str(len(self.asked)))

    def unused(self, tenant: str, permit: Permit) -> None:
        assert permit.has
        self.running[tenant] -= 1


def limited_lanes(desk: Desk) -> LimitedLanes:
    return LimitedLanes(TenantTags(alike, lambda: 1.0), desk, desk.unused)


class Limited(Worker):
    """Puts back what is to wait, where it came from."""

    def __init__(self, broker: Broker, desk: Desk) -> None:
        self.lanes = limited_lanes(desk)
        super().__init__(broker, self.lanes)
        self.desk = desk
        self.runs: list[str] = []

    def came(self, message: Message, turn: Turn, number: int) -> None:
        if turn.has == "left":
            self.broker.lanes[number].append(message)
            self.lanes.lanes.grew(number)
        else:
            self.starts(message, turn)

    def starts(self, message: Message, turn: Turn) -> None:
        super().starts(message, turn)
        assert bool(turn.has) == self.desk.is_limited(turn.tenant)
        if turn.has:
            self.runs.append(turn.tenant)
            assert self.runs.count(turn.tenant) <= self.desk.caps[turn.tenant]

    def end(self, tenant: str) -> None:
        self.runs.remove(tenant)
        self.desk.running[tenant] -= 1
        self.lanes.ended(tenant)

    def end_all(self) -> None:
        """Start what is left, as what runs ends."""
        while self.next() is not None or self.runs or any(self.broker.lanes.values()):
            for tenant in list(self.runs):
                self.end(tenant)
            self.broker.now += 1.0
            for number in list(self.lanes.lanes.depths):  # whose turn is hidden by another's
                self.lanes.reopen(number)
            self.watch()


@given(ACTS, st.randoms(use_true_random=False))
def test_caps_are_kept_and_no_place_is_lost(
    acts: list[tuple[str, str, int]], chance: random.Random
) -> None:
    broker = Broker()
    worker = Limited(broker, Desk({"a": 1, "b": 2}))
    for act, key, count in acts:
        broker.now += chance.choice((0.0, LOOK, SORTING))
        number = chance.randrange(4)
        if act == "front":
            broker.put(*count * [key])
        elif act == "lane":
            broker.put_into(number, *count * [f"{key}/{count}"])
        elif act == "start":
            worker.next(count)
        elif act == "look":
            worker.watch()
        elif act == "reopen" and number in worker.choice.lanes.depths:
            worker.choice.reopen(number)
        elif act in {"broken", "mended"}:
            worker.moves = act == "mended"
        elif worker.runs:
            worker.end(chance.choice(worker.runs))
        assert sum(worker.desk.running.values()) >= len(worker.runs)
    worker.moves = True
    worker.end_all()
    assert len(worker.started) == len({number for number, _ in worker.started})
    assert len(worker.started) == broker.published
    assert not any(worker.desk.running.values())


def test_who_waits_hides_nobody_in_the_front() -> None:
    worker = Limited(Broker("aab"), Desk({"a": 1}))
    assert worker.all() == ["a", "b"]
    assert worker.lanes.some_wait
    assert worker.lanes.ask_at == 1e9
    assert not worker.lanes.have_room
    worker.end("a")
    assert worker.lanes.have_room
    assert worker.all() == ["a"]


def test_who_was_refused_is_asked_for_again_when_it_is_time() -> None:
    desk = Desk({"a": 0})
    worker = Limited(Broker("a"), desk)
    assert worker.next() is None
    desk.caps["a"] = 1
    assert worker.next() is None
    worker.broker.now = 2e9
    assert worker.next() is not None


def test_what_comes_for_another_and_may_not_start_is_put_back() -> None:
    worker = Limited(Broker(), Desk({"a": 0, "b": 1}))
    worker.broker.put_into(0, "a", "b")
    worker.choice.found(0, 2, ("b", ""))
    worker.choice.front_is(None, 0, worker.broker.now)
    assert worker.next() is None  # nobody knows who is behind
    assert not worker.desk.running["b"]
    worker.choice.reopen(0)
    assert worker.next() == (2, ("b", ""))
    assert worker.desk.running["b"] == 1


def test_what_will_not_come_leaves_its_place() -> None:
    desk = Desk({"a": 1})
    lanes = limited_lanes(desk)
    lanes.front_is(None, 0, 0.0)
    lanes.found(0, 1, ("a", ""))
    step = lanes.step(1.0, 0.0)
    assert isinstance(step, Take)
    assert desk.running["a"] == 1
    lanes.give_up(step.pick)
    assert desk.running["a"] == 0


def test_holding_twice_is_holding_once() -> None:
    lanes = limited_lanes(Desk({}))
    lanes.found(0, 1, ("a", ""))
    for tenant in ("a", "a", "b"):
        lanes.hold(tenant)
    assert list(lanes.tags.tenants.held) == ["a"]


def test_who_waits_is_not_asked_for_again_by_what_comes_for_another() -> None:
    desk = Desk({"a": 0})
    lanes = limited_lanes(desk)
    lanes.front_is(None, 0, 0.0)
    lanes.found(0, 2, ("b", ""))
    lanes.begin(0.0)
    picks = lanes.more(2, 1.0)
    desk.asked.clear()
    turns = [lanes.came(pick, ("a", ""), left) for pick, left in zip(picks, (1, 0), strict=True)]
    assert [turn and turn.has for turn in turns] == ["left", "left"]
    assert desk.asked == ["a"]
