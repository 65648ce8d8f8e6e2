"""Why a target is missed, as the log says it."""

from __future__ import annotations

from threading import Event
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from celery_fair.core.chooser import Chooser, Targets
from celery_fair.core.gate import Gate
from celery_fair.core.targets import Target
from celery_fair.settings import QueueOptions
from celery_fair.worker.launch.in_flight import InFlight
from celery_fair.worker.observe.targets import TargetWatch
from celery_fair.worker.process import Parts
from tests.worker.parts import Silent


class Request:
    """As much of one as is asked; it begins when it is added."""

    def __init__(self, queue: str) -> None:
        self.message = SimpleNamespace(feed=SimpleNamespace(name=queue), lane=None)
        self.message.hand_over = lambda at: setattr(self.message, "begun_at", at)


@pytest.mark.parametrize(
    ("seconds", "slots", "said"),
    [
        ({"mail": 0.1, "bulk": 90.0}, 8, "but tasks of bulk take 1.5min: cap them"),
        ({"mail": 0.1, "bulk": 0.2}, 8, "was it a burst, or the worker away?\n"),
        ({"mail": 0.3, "bulk": 0.2}, 8, "away? Its tasks take 300ms: busy workers may hold what"),
        ({"mail": 90.0, "bulk": 0.2}, 16, "was it a burst, or the worker away?"),
        ({"mail": 90.0, "bulk": 0.2}, 8, "12 slots here would do, there are 8"),
    ],
)
def test_a_miss_says_what_to_do(
    caplog: pytest.LogCaptureFixture, seconds: dict[str, float], slots: int, said: str
) -> None:
    running = InFlight()
    chooser = Chooser(running, targets=Targets({"mail": Target(0.95, 1.0)}))
    assert chooser.urgency is not None
    mail = chooser.add("mail", 1.0, 0, Gate(QueueOptions(1.0), None))
    pool: Any = SimpleNamespace(in_flight=running, count=lambda: slots)
    watch = TargetWatch(chooser, chooser.urgency, pool)
    for queue, taken in seconds.items():
        watch.ended(Request(queue), taken)
        chooser.urgency.floors.run_times[queue].add(taken)
    for _ in range(9):
        chooser.urgency.started(mail, 5.0, 0.0)
    assert watch.after_turn(0.0) == watch.after_turn(3.0) == 5.0
    assert said in caplog.text


def test_who_has_not_run_of_late_is_not_to_blame(caplog: pytest.LogCaptureFixture) -> None:
    """But what runs now is, before any of it has ended."""
    running = InFlight()
    chooser = Chooser(running, targets=Targets({"mail": Target(0.95, 1.0)}))
    assert chooser.urgency is not None
    mail = chooser.add("mail", 1.0, 0, Gate(QueueOptions(1.0), None))
    pool: Any = SimpleNamespace(in_flight=running, count=lambda: 8)
    watch = TargetWatch(chooser, chooser.urgency, pool)
    watch.ended(Request("nightly"), 3600.0)
    now = monotonic() + 100
    chooser.urgency.started(mail, 5.0, now)
    watch.after_turn(now)
    assert "was it a burst, or the worker away?" in caplog.text
    running.add(Request("bulk"))
    now += 100
    chooser.urgency.started(mail, 5.0, now)
    watch.after_turn(now)
    assert "but tasks of bulk take 3.33min: cap them" in caplog.text


def test_it_is_looked_again_though_nothing_starts_or_ends() -> None:
    """A pool with an event loop wakes for nothing while all its slots are taken."""
    parts: Any = object.__new__(Parts)
    parts._has_news, parts.wake_up = Event(), Silent()
    parts.targets = [SimpleNamespace(after_turn=lambda now: now + 5)]
    parts.after_turn(3.0)
    assert parts.wake_up.times == [8.0]
