"""A relay hands every request to a pool's threads once, and its news are never lost."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Lock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_fair.worker.fast_path.path import Relay

PATIENCE = 30


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as executor:
        yield executor


class Batch:
    """Requests that are applied, and what was heard of them, in its order."""

    def __init__(self, executor: ThreadPoolExecutor, limit: int) -> None:
        self.relay = Relay(executor, limit, self._told)
        self.ran: Counter[int] = Counter()
        self.all_told = Event()
        self._count = 0
        self._ended = 0
        self._lock = Lock()

    def apply(self, count: int) -> None:
        self._count = count
        for number in range(count):
            self.relay.apply(self._run, (number,), {}, callback=self._end)

    def _run(self, number: int) -> int:
        with self._lock:
            self.ran[number] += 1
        return number

    def _end(self, number: int) -> None:
        with self._lock:
            self._ended += 1
        self.relay.ended()

    def _told(self) -> None:
        with self._lock:
            if self._ended == self._count:
                self.all_told.set()


@pytest.mark.parametrize("limit", [1, 2, 4])
@settings(deadline=None, max_examples=50)
@given(counts=st.lists(st.integers(1, 50), min_size=1, max_size=5))
def test_each_runs_once_and_the_last_end_is_told(limit: int, counts: list[int]) -> None:
    with ThreadPoolExecutor(limit) as executor:
        for count in counts:
            batch = Batch(executor, limit)
            batch.apply(count)
            assert batch.all_told.wait(PATIENCE)
            assert batch.ran == dict.fromkeys(range(count), 1)


def block(relay: Relay) -> Event:
    """Run something until the event is set that this returns."""
    blocking, gate = Event(), Event()

    def wait() -> None:
        blocking.set()
        gate.wait(PATIENCE)

    relay.apply(wait, (), {})
    assert blocking.wait(PATIENCE)
    return gate


def test_as_many_run_at_once_as_there_are_threads(executor: ThreadPoolExecutor) -> None:
    relay = Relay(executor, 4, lambda: None)
    together = Barrier(5)
    for _ in range(4):
        relay.apply(together.wait, (PATIENCE,), {})
    together.wait(PATIENCE)


def test_one_that_blocks_keeps_no_other_from_running(executor: ThreadPoolExecutor) -> None:
    relay = Relay(executor, 2, lambda: None)
    gate, ran = block(relay), Event()
    for _ in range(10):
        relay.apply(int, (), {})
    relay.apply(ran.set, (), {})
    assert ran.wait(PATIENCE)
    gate.set()


def test_one_at_a_time_in_their_order() -> None:
    order: list[int] = []
    done = Event()
    with ThreadPoolExecutor(4) as executor:
        relay = Relay(executor, 1, lambda: None)
        for number in range(100):
            relay.apply(order.append, (number,), {})
        relay.apply(done.set, (), {})
        assert done.wait(PATIENCE)
    assert order == list(range(100))


def test_a_callback_that_fails_ends_no_runner(
    executor: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    relay = Relay(executor, 1, lambda: None)
    done = Event()

    def fail(result: int) -> None:
        raise ValueError(result)

    with caplog.at_level(logging.CRITICAL + 1):
        relay.apply(int, (), {}, callback=fail)
        relay.apply(int, (), {}, callback=lambda result: done.set())
        assert done.wait(PATIENCE)


def test_news_wait_until_none_is_left_to_begin(executor: ThreadPoolExecutor) -> None:
    told: list[int] = []
    began: list[int] = []
    gate, done = Event(), Event()
    relay = Relay(executor, 1, lambda: told.append(len(began)))

    def ended(result: object) -> None:
        relay.ended()

    relay.apply(gate.wait, (PATIENCE,), {}, callback=ended)
    for number in range(3):
        relay.apply(began.append, (number,), {}, callback=ended)
    relay.apply(done.set, (), {})
    gate.set()
    assert done.wait(PATIENCE)
    assert told == [3]


def test_where_there_are_no_more_threads_one_that_is_there_takes_it(
    executor: ThreadPoolExecutor,
) -> None:
    relay = Relay(executor, 4, lambda: None)
    gate, ran = block(relay), Event()
    relay._submit = refuse
    relay.apply(ran.set, (), {})
    gate.set()
    assert ran.wait(PATIENCE)


def test_where_there_is_none_it_is_refused_and_those_after_it_are_not(
    executor: ThreadPoolExecutor,
) -> None:
    relay = Relay(executor, 1, lambda: None)
    began: list[int] = []
    submit, relay._submit = relay._submit, refuse
    for number in range(2):
        with pytest.raises(RuntimeError):
            relay.apply(began.append, (number,), {})
    relay._submit, ran = submit, Event()
    relay.apply(began.append, (2,), {}, callback=lambda _: ran.set())
    assert ran.wait(PATIENCE)
    assert began == [2]


def refuse(run: object) -> None:
    raise RuntimeError("cannot schedule new futures after shutdown")
