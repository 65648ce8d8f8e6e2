"""A worker that sleeps is woken at the earliest of the times that were asked for, or by news."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kombu.asynchronous import Hub

from celery_fair.worker.bell import HubBell, Interruptible, SyncBell

LONG = 60.0
SOON = 10.0
"""Seconds: what is not set right would come after `LONG`, or never."""


class Woken:
    """Kombu's own loop, and how often it was woken."""

    def __init__(self) -> None:
        self.count = 0
        self.hub = Hub()
        self.bell = HubBell(self.hub)
        self.bell.listen(self.run)

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
    woken.bell.close()
    woken.hub.close()


@pytest.mark.parametrize("times", [(0.05,), (LONG, 0.05), (0.05, LONG), (LONG, LONG / 2, 0.05)])
def test_it_wakes_at_the_earliest_time(woken: Woken, times: tuple[float, ...]) -> None:
    now = time.monotonic()
    for seconds in times:
        woken.bell.at(now + seconds)
    woken.wait(1)
    assert time.monotonic() >= now + 0.05


def test_it_wakes_again(woken: Woken) -> None:
    for count in (1, 2):
        woken.bell.at(time.monotonic() + 0.02)
        woken.wait(count)


def test_news_wakes_it_once_until_it_has_looked(woken: Woken) -> None:
    for _ in range(3):
        woken.bell.soon()
    woken.wait(1)
    woken.bell.at(time.monotonic())
    woken.wait(2)
    woken.bell.soon()
    woken.wait(3)
    assert woken.count == 3


class Aside:
    """A synchronous loop, and a timer that calls on a greenlet of its own."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], object]] = []
        self.runs = 0
        timer = SimpleNamespace(call_after=lambda seconds, call: self.calls.append(call))
        self.bell = SyncBell(timer)
        connection: Any = SimpleNamespace(drain_events=self._nothing_comes)
        self.loop = Interruptible(connection, self.bell)
        self.bell.listen(self.run)

    def _nothing_comes(self, timeout: float) -> None:
        raise TimeoutError

    def run(self, until: float) -> bool:
        self.runs += 1
        raise ConnectionResetError("cut")


def test_what_fails_beside_the_loop_is_raised_in_the_loop() -> None:
    """And is not run again: it was broken off amid its work."""
    aside = Aside()
    aside.bell.later()
    aside.calls.pop()()
    with pytest.raises(ConnectionResetError):
        aside.loop.drain_events(1)
    assert aside.runs == 1

    aside.bell.listen(lambda until: True)  # on the next connection
    with pytest.raises(TimeoutError):
        aside.loop.drain_events(1)
