"""Why a target is missed, as the log says it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from celery_fair.core.chooser import Chooser, Targets
from celery_fair.core.gate import Gate
from celery_fair.core.targets import Target
from celery_fair.settings import QueueOptions
from celery_fair.worker.launch.in_flight import InFlight
from celery_fair.worker.observe.targets import TargetWatch


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
    for queue, taken in seconds.items():
        chooser.urgency.floors.run_times[queue].add(taken)
    for _ in range(9):
        chooser.urgency.started(mail, 5.0, 0.0)
    pool: Any = SimpleNamespace(in_flight=running, count=lambda: slots)
    TargetWatch(chooser, chooser.urgency, pool).after_turn(0.0)
    assert said in caplog.text
