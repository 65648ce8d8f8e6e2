"""A task that is registered after the worker's start is unknown to it, as to Celery's own."""

from __future__ import annotations

import pytest

from tests.brokers import Space
from tests.integration.depths import left
from tests.once.conftest import DeadLetters, dead_letters
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import StartWorker

__all__ = ["dead_letters"]

APP = """
from tests.apps.shares import *


@app.task(bind=True, name="register")
def register(self, seq):
    app.task(bind=True, name="late", lazy=False)(noop.run.__func__)
    finish(self, seq)
"""


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "plain"])
@pytest.mark.parametrize("pool", ["solo", "threads"])
def test_it_goes_to_the_dead_letters(
    space: Space, start_worker: StartWorker, dead_letters: DeadLetters, pool: str, fast: bool
) -> None:
    conf = {"fair_fast_path": fast}
    worker = start_worker(space, app=APP, pool=pool, queues=["q"], conf=conf)
    worker.records.finished.wait_once(publish(space.url, {"q": 1}, "register").all())
    ids = publish(space.url, {"q": 2}, "late").all()
    worker.records.started.wait_once(publish(space.url, {"q": 1}).all())

    wait_equal(lambda: left(space, "q"), 0)
    assert worker.stop() == 0
    assert not worker.records.started.times(ids)
    assert sorted(dead_letters()) == sorted(ids)
    assert {letter["x-fair-reason"] for letter in dead_letters().values()} == {"unknown-task"}
