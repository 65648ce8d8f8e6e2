"""What a pool of threads was handed occupies a slot until it has ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from threading import Event
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from celery.concurrency.thread import TaskPool

from celery_fair.worker.fast_path.path import FastPath
from celery_fair.worker.launch.in_flight import InFlight
from celery_fair.worker.launch.pool import ObservedPool, PlainWay
from tests.waiting import wait_for

PATIENCE = 30


class Request:
    """As much of one as concerns a pool."""

    def __init__(self, name: str) -> None:
        self.id = name
        feed = SimpleNamespace(name="q")
        self.message = SimpleNamespace(feed=feed, lane=None, begun_at=0, hand_over=lambda now: None)

    def on_success(self, result: Any) -> None: ...


def test_without_a_run_time_it_is_told_how_long_it_was_there() -> None:
    """As of a task that was stopped at its hard time limit."""
    told: list[float] = []
    in_flight = InFlight(ended=[lambda _, seconds: told.append(seconds)])
    request: Any = Request("killed")
    in_flight.add(request)
    request.message.begun_at = monotonic() - 300
    in_flight.remove(request)
    assert told == [pytest.approx(300, abs=60)]


@pytest.fixture
def pool() -> Iterator[TaskPool]:
    pool = TaskPool(limit=1)
    pool.start()
    with ExitStack() as stack:
        stack.callback(pool.stop)
        yield pool


@pytest.mark.parametrize("short", [True, False])
def test_what_waits_for_a_thread_while_the_connection_is_lost(pool: TaskPool, short: bool) -> None:
    begun, gate = Event(), Event()
    way = (FastPath() if short else PlainWay()).into(pool, lambda: None)
    in_flight = InFlight(way.ended)
    observed = ObservedPool(pool, in_flight, way)

    def work() -> tuple[int, None, float]:
        begun.set()
        gate.wait(PATIENCE)
        return 0, None, 0.0

    for request in (Request("runs"), Request("waits")):
        in_flight.add(request)
        observed.apply_async(work, callback=request.on_success, args=())
    assert begun.wait(PATIENCE)

    in_flight.forget_dropped(observed)

    assert [request.id for request in in_flight] == ["runs", "waits"]
    gate.set()
    wait_for(lambda: not len(in_flight), PATIENCE, "the end of both")
    assert in_flight.of("q") == 0


@pytest.mark.parametrize("short", [True, False])
def test_what_waits_for_a_thread_when_the_pool_stops(
    pool: TaskPool, short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is acknowledged, perhaps; Celery 5.7 cancels what no thread has begun."""
    way = (FastPath() if short else PlainWay()).into(pool, lambda: None)
    observed = ObservedPool(pool, InFlight(way.ended), way)
    began, may_begin, ran = Event(), Event(), Event()

    def keep_the_thread() -> None:
        began.set()
        may_begin.wait(PATIENCE)

    def work() -> tuple[int, None, float]:
        ran.set()
        return 0, None, 0.0

    pool.executor.submit(keep_the_thread)
    assert began.wait(PATIENCE)
    observed.apply_async(work, callback=Request("late").on_success, args=())
    monkeypatch.setattr("celery_fair.worker.launch.pool.sleep", lambda _: may_begin.set())

    observed.settle()
    pool.executor.shutdown(wait=False, cancel_futures=True)  # as the pool does
    may_begin.set()
    pool.stop()

    assert ran.is_set()
