"""A worker that sleeps is woken at the earliest of the times that were asked for, or by news."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from amqp import RecoverableConnectionError
from kombu.asynchronous import Hub

from celery_fair.worker import patches
from celery_fair.worker import wake_up as wake_up_module
from celery_fair.worker.launch.in_flight import InFlight
from celery_fair.worker.launch.pool import ObservedPool, PlainWay
from celery_fair.worker.wake_up import HubWakeUp, Interruptible, SocketWakeUp, SyncWakeUp

LONG = 60.0
SOON = 10.0
"""Seconds: what is not set right would come after `LONG`, or never."""


class Woken:
    """Kombu's own loop, and how often it was woken."""

    def __init__(self) -> None:
        self.count = 0
        self.hub = Hub()
        self.wake_up = HubWakeUp(self.hub)
        self.wake_up.listen(self.run)

    def run(self, until: float) -> bool:
        self.count += 1
        return True

    def wait(self, count: int) -> None:
        """Until it was woken so often; as long as it sleeps, it does nothing else."""
        deadline = time.monotonic() + SOON
        self.hub.timer.call_after(SOON, lambda: None)  # or it would sleep on
        for _ in self.hub.create_loop():
            if self.count >= count:
                return
            assert time.monotonic() < deadline, f"woken {self.count} times, not {count}"


@pytest.fixture
def woken() -> Iterator[Woken]:
    woken = Woken()
    yield woken
    woken.wake_up.close()
    woken.hub.close()


@pytest.mark.parametrize("times", [(0.05,), (LONG, 0.05), (0.05, LONG), (LONG, LONG / 2, 0.05)])
def test_it_wakes_at_the_earliest_time(woken: Woken, times: tuple[float, ...]) -> None:
    now = time.monotonic()
    for seconds in times:
        woken.wake_up.at(now + seconds)
    woken.wait(1)
    assert time.monotonic() >= now + 0.05


def test_it_wakes_again(woken: Woken) -> None:
    for count in (1, 2):
        woken.wake_up.at(time.monotonic() + 0.02)
        woken.wait(count)


def test_news_wakes_it_once_until_it_has_looked(woken: Woken) -> None:
    for _ in range(3):
        woken.wake_up.soon()
    woken.wait(1)
    woken.wake_up.at(time.monotonic())
    woken.wait(2)
    woken.wake_up.soon()
    woken.wait(3)
    assert woken.count == 3


def test_a_slot_that_becomes_free_is_filled_at_once(woken: Woken) -> None:
    woken.wake_up.freed()
    assert woken.count == 1


def test_a_loop_that_is_busy_fills_slots_together(
    woken: Woken, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall, spent = [1000.0], [0.0]
    monkeypatch.setattr(wake_up_module, "monotonic", lambda: wall[0])
    monkeypatch.setattr(wake_up_module, "thread_time", lambda: spent[0])

    def turn(seconds: float, computed: float) -> None:
        wall[0] += seconds
        spent[0] += computed
        before = woken.count
        woken.wake_up.soon()
        woken.wait(before + 1)

    turn(0.1, 0.0)
    turn(0.1, 0.06)
    before = woken.count
    woken.wake_up.freed()
    woken.wake_up.freed()
    assert (woken.count, woken.wake_up.hurried) == (before, True)
    woken.wait(before + 1)
    assert woken.count == before + 1

    turn(0.01, 0.0)  # too short to tell
    assert woken.wake_up.hurried
    turn(0.1, 0.04)
    before = woken.count
    woken.wake_up.freed()
    assert (woken.count, woken.wake_up.hurried) == (before + 1, False)


@pytest.mark.parametrize("call", ["flush", "shrink"])
def test_what_ends_while_the_pool_is_tidied_starts_nothing(woken: Woken, call: str) -> None:
    """The connection may be lost, and nobody here have been told; or the pool is amid a change."""
    calls = {"flush": lambda *_: None, call: lambda *_: woken.wake_up.freed()}
    pool: Any = SimpleNamespace(apply_async=None, **calls)
    way = PlainWay().into(pool, woken.wake_up.freed)
    getattr(ObservedPool(pool, InFlight(), way, quiet=woken.wake_up.held), call)()
    assert woken.count == 0
    woken.wait(1)


def test_nor_what_ends_while_a_process_is_replaced(woken: Woken) -> None:
    """Billiard's own timer, and the end of a process, have it done; and a pool that grows."""

    class Inner:
        def maintain_pool(self) -> None:
            woken.wake_up.freed()

    inner = Inner()
    own = SimpleNamespace(
        _pool=inner, maintain_pool=inner.maintain_pool, grow=lambda n: None, apply_async=None
    )
    pool = ObservedPool(own, InFlight(), PlainWay().into(own, woken.wake_up.freed))
    for _ in range(2):  # connections
        patches.maintain_quietly(pool, woken.wake_up.held)
    inner.maintain_pool()
    pool.grow()
    assert woken.count == 0
    woken.wait(1)
    patches.maintain_quietly(SimpleNamespace(), woken.wake_up.held)  # a pool of another kind


def test_what_fails_as_a_slot_becomes_free_is_raised_in_the_loop(woken: Woken) -> None:
    def fail(until: float) -> bool:
        raise ConnectionResetError("cut")

    woken.wake_up.listen(fail)
    woken.wake_up.freed()
    with pytest.raises(ConnectionResetError):
        woken.wait(1)


@pytest.mark.parametrize("calls", [True, False])
def test_what_is_called_soon_as_a_slot_becomes_free_is_called_soon(
    woken: Woken, calls: bool
) -> None:
    """Kombu's loop would sleep before it, as it has called by then what it was to call soon."""

    def run(until: float) -> bool:
        if calls:
            woken.hub.call_soon(lambda: None)
        return True

    woken.wake_up.listen(run)
    woken.wake_up.freed()
    assert bool(woken.hub.poller.poll(0)) is calls


class Aside:
    """A synchronous loop, and a timer that calls on a greenlet of its own."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], object]] = []
        self.runs = 0
        timer = SimpleNamespace(call_after=lambda seconds, call: self.calls.append(call))
        self.wake_up = SyncWakeUp(timer)
        connection: Any = SimpleNamespace(drain_events=self._nothing_comes)
        self.loop = Interruptible(connection, self.wake_up)
        self.wake_up.listen(self.run)

    def _nothing_comes(self, timeout: float) -> None:
        raise TimeoutError

    def run(self, until: float) -> bool:
        self.runs += 1
        raise ConnectionResetError("cut")


def test_what_fails_beside_the_loop_is_raised_in_the_loop() -> None:
    """And is not run again: it was broken off amid its work."""
    aside = Aside()
    aside.wake_up.later()
    aside.calls.pop()()
    with pytest.raises(ConnectionResetError):
        aside.loop.drain_events(1)
    assert aside.runs == 1

    aside.wake_up.listen(lambda until: True)  # on the next connection
    with pytest.raises(TimeoutError):
        aside.loop.drain_events(1)


def test_who_leaves_waits_for_what_another_thread_is_amid() -> None:
    """A message may just be acknowledged there, and has not started."""
    wake_up = SyncWakeUp(SimpleNamespace())
    begun, go_on = threading.Event(), threading.Event()
    order: list[str] = []

    def run(until: float) -> bool:
        begun.set()
        go_on.wait(SOON)
        order.append("started")
        return True

    wake_up.listen(run)
    others = threading.Thread(target=wake_up.soon), threading.Timer(0.05, go_on.set)
    for other in others:
        other.start()
        assert begun.wait(SOON)
    wake_up.leave()
    wake_up.settle()
    order.append("stopped")
    for other in others:
        other.join(SOON)
    assert order == ["started", "stopped"]


def test_who_is_called_may_settle() -> None:
    wake_up = SyncWakeUp(SimpleNamespace())
    settled: list[bool] = []

    def run(until: float) -> bool:
        wake_up.settle()
        settled.append(True)
        return True

    wake_up.listen(run)
    wake_up.soon()
    assert settled == [True]


class Blocking:
    """A synchronous loop on an AMQP connection of which nothing comes, in kombu's shape.

    Attributes:
        looks: what each of the dispatcher's runs does.
    """

    def __init__(self) -> None:
        self.connected = True
        self.beats = 0
        self.runs = 0
        self.looks: list[Callable[[], object]] = []
        self._amqp, self._broker = socket.socketpair()
        self.wake_up = SocketWakeUp(SimpleNamespace(call_after=lambda seconds, call: None))
        self.wake_up.listen(self._run)
        self.loop = Interruptible(self, self.wake_up)

    @property
    def connection(self) -> Any:
        assert self.connected, "kombu has connected again, to where nothing is consumed"
        return SimpleNamespace(sock=self._amqp, drain_events=self.drain_events)

    def drain_events(self, timeout: float) -> None:
        assert self.connection
        raise TimeoutError

    def heartbeat_check(self, rate: float) -> None:
        assert self.connection
        self.beats += 1

    def _run(self, until: float) -> bool:
        self.runs += 1
        if self.looks:
            self.looks.pop(0)()
        return True

    def lose(self) -> None:
        """A write has failed; the socket says nothing yet."""
        self.connected = False

    def close(self) -> None:
        self.wake_up.close()
        self._amqp.close()
        self._broker.close()


@pytest.fixture
def blocking() -> Iterator[Blocking]:
    blocking = Blocking()
    yield blocking
    blocking.close()


def seconds_of(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def test_what_a_run_has_taken_in_is_looked_at_before_the_loop_waits(blocking: Blocking) -> None:
    """It came with the answer to a call on a channel, after the run's last look at the news."""
    blocking.looks = [
        blocking.wake_up.arrived,
        blocking.wake_up.soon,
    ]  # the second look ends the wait
    assert seconds_of(lambda: blocking.loop.drain_events(SOON)) < SOON / 2


def test_what_is_called_soon_does_not_wait_for_the_broker(blocking: Blocking) -> None:
    """Such as a command's, from the greenlet that hears them."""
    called: list[Callable[[], object]] = []
    consumer: Any = SimpleNamespace(hub=None, call_soon=called.append, call_soon_ack=called.append)
    patches.replace_loop(consumer, blocking.wake_up)
    consumer.call_soon(print)
    assert len(called) == 1
    assert seconds_of(lambda: blocking.loop.drain_events(SOON)) < SOON / 2


def test_what_is_called_soon_is_called_in_its_order(blocking: Blocking) -> None:
    """Celery's loop without a hub takes the last first before 5.7, kombu's any."""
    soon: list[Callable[[], object]] = []
    done: list[str] = []
    consumer: Any = SimpleNamespace(hub=None, call_soon=soon.append)
    patches.replace_loop(consumer, blocking.wake_up)
    consumer.call_soon(done.append, "cancelled")
    consumer.call_soon(done.append, "added")
    while soon:
        soon.pop()()
    assert done == ["cancelled", "added"]


def test_what_is_called_soon_and_fails_keeps_nothing_from_its_turn(blocking: Blocking) -> None:
    soon: list[Callable[[], object]] = []
    done: list[str] = []
    consumer: Any = SimpleNamespace(hub=None, call_soon=soon.append)
    patches.replace_loop(consumer, blocking.wake_up)
    consumer.call_soon([].pop)
    consumer.call_soon(done.append, "added")
    with pytest.raises(IndexError):
        soon.pop()()
    soon.pop()()
    assert done == ["added"]


@pytest.mark.parametrize(
    "does",
    [lambda loop: loop.drain_events(SOON), lambda loop: loop.heartbeat_check(2.0)],
    ids=["waits", "beats"],
)
def test_a_connection_that_is_lost_is_not_made_again(
    blocking: Blocking, does: Callable[[Interruptible], None]
) -> None:
    blocking.loop.heartbeat_check(2.0)
    assert blocking.beats == 1
    blocking.lose()
    with pytest.raises(RecoverableConnectionError):
        does(blocking.loop)


def test_a_connection_that_is_lost_amid_a_turn_is_not_made_again(blocking: Blocking) -> None:
    """An acknowledgement of a task's own greenlet has failed while the loop waited."""
    blocking.wake_up.soon()
    blocking.loop.drain_events(SOON)
    blocking.wake_up.soon()
    blocking.looks.append(blocking.lose)
    with pytest.raises(RecoverableConnectionError):
        blocking.loop.drain_events(SOON)
