"""Signals that come amid a turn."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from celery_fair.worker.signals import Handlers
from tests.brokers import Space
from tests.integration.depths import ready, unsettled
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import StartWorker

QUITS_AMID_A_TURN = """
import os, signal
from celery_fair.worker.launch.in_flight import Slots
from tests.apps.shares import *

fill, filled = Slots.fill, []

def quits(self, request):
    filled.append(request)
    if len(filled) == 5:
        os.kill(os.getpid(), signal.SIGQUIT)
    fill(self, request)

Slots.fill = quits
"""


@pytest.fixture
def told() -> Iterator[list[str]]:
    """What handlers of SIGQUIT write to: the first puts a second in its place, as Celery's does."""

    def first(number: int, frame: Any) -> None:
        told.append("first")
        signal.signal(number, lambda *_: told.append("second"))

    told: list[str] = []
    before = signal.signal(signal.SIGQUIT, first)
    others = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield told
    for number, handler in (others | {signal.SIGQUIT: before}).items():
        signal.signal(number, handler)


def test_handlers_are_called_after_a_block(told: list[str]) -> None:
    handlers = Handlers()
    handlers.take()
    handlers.take()  # again, with each connection
    with handlers:
        signal.raise_signal(signal.SIGQUIT)
        signal.raise_signal(signal.SIGQUIT)
        assert told == []
    assert told == ["first", "second"]
    signal.raise_signal(signal.SIGQUIT)
    assert told == ["first", "second", "second"]
    with handlers:
        signal.raise_signal(signal.SIGQUIT)
        assert len(told) == 3
    assert len(told) == 4


@pytest.mark.parametrize(
    ("space", "pool"), [("rabbitmq", "threads"), ("redis", "prefork")], indirect=["space"]
)
def test_a_cold_shutdown_amid_a_turn(space: Space, start_worker: StartWorker, pool: str) -> None:
    """It is between an acknowledgement and the start: that comes first."""
    options = {"pool": pool, "concurrency": 2, "queues": ["a"], "app": QUITS_AMID_A_TURN}
    worker = start_worker(space, **options)
    ids = publish(space.url, {"a": 30}).all()

    code = worker.wait()

    assert pool == "threads" or (code, "Traceback" in worker.log()) == (0, False), worker.log()
    assert "malformed" not in worker.log()
    wait_equal(lambda: unsettled(space, "a"), 0)
    gone = len(ids) - len(worker.records.started.times(ids)) - ready(space, "a")
    assert 0 <= gone <= (2 if pool == "prefork" else 0)  # whose processes are killed
    assert ready(space, "dead-letters") == 0
