"""The want of a claim proves nothing of what a worker without the ledger may have started."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import ImproperlyConfigured

from celery_fair.settings import Settings
from tests.brokers import RedisServer, Space
from tests.integration.depths import left
from tests.integration.gate import Gate
from tests.once.conftest import DeadLetters
from tests.once.test_ledger import POOL, QUEUES, conf, has_been_there_for_an_hour, ledger, now
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import StartWorker

__all__ = ["ledger"]

REPEATABLE = """
from tests.apps.shares import *

@app.task(bind=True, name="after", acks_late=True)
def after(self, seq, gate=""):
    start(self, seq)
    if gate:
        wait_at(gate)
    finish(self, seq)
"""
"""What a fleet ran before the task was made non-repeatable."""


def started_twice(
    space: Space, start_worker: StartWorker, gate: Gate, new: dict[str, Any], old: dict[str, Any]
) -> tuple[list[str], list[str]]:
    """An `old` worker starts two tasks and is killed, while `new` ones have the ledger for an hour.

    Returns:
        What was started, and what of it a new worker has started again, when nothing is left.
    """
    start_worker(space, conf=new, **POOL).stop()
    has_been_there_for_an_hour(new["fair_ledger"])
    first = start_worker(space, **POOL | old)
    stamp = now(new["fair_ledger"])
    held = publish(space.url, {"a": 2}, "after", [str(gate.path)], headers=stamp).all()
    first.records.started.wait_ids(held)
    first.kill()
    first.process.end()
    second = start_worker(space, conf=new, **POOL)
    second.records.finished.wait_once(publish(space.url, {"a": 5}, "after", headers=stamp).all())
    gate.open()
    wait_equal(lambda: left(space, *QUEUES), 0, timeout=30)
    return sorted(held), second.records.started.repeated()


def test_by_default(
    space: Space, start_worker: StartWorker, gate: Gate, dead_letters: DeadLetters, ledger: str
) -> None:
    """A worker of yesterday's code knows of no ledger, and marks nothing."""
    new = conf(ledger)
    del new["fair_ledger_since"]
    soon = {"broker_transport_options": new["broker_transport_options"]}
    old = {"app": REPEATABLE, "fair": False, "conf": soon}
    held, again = started_twice(space, start_worker, gate, new, old)
    assert again == []
    assert sorted(dead_letters()) == held


@pytest.mark.parametrize("without", ["the ledger", "the bootstep", "the same ledger"])
def test_a_worker_that_joins_later(
    space: Space,
    start_worker: StartWorker,
    gate: Gate,
    dead_letters: DeadLetters,
    ledger: str,
    without: str,
) -> None:
    """It should not be there; but as it is, it marks what it starts."""
    new = conf(ledger)
    old: dict[str, Any] = {"conf": {k: v for k, v in new.items() if "ledger" not in k}}
    if without == "the bootstep":
        old = {"fair": False, "conf": new}
    elif without == "the same ledger":
        old = {"conf": new | {"fair_ledger": "sqlite:///another.db"}}
    held, again = started_twice(space, start_worker, gate, new, old)
    assert again == []
    assert sorted(dead_letters()) == held


def test_a_worker_whose_url_names_another_ledger_in_an_option(
    rabbitmq_space: Space, start_worker: StartWorker, gate: Gate, redis_server: RedisServer
) -> None:
    new, another = (redis_server.space().url.rpartition("/") for _ in "ab")
    url = f"{new[0]}?db={new[2]}"
    old = {"conf": conf(f"{another[0]}?db={another[2]}")}
    held, again = started_twice(rabbitmq_space, start_worker, gate, conf(url), old)
    assert len(held) == 2
    assert again == []


@pytest.mark.parametrize(
    "since",
    [
        "2026-05-31T14:00:00Z",
        "2026-05-31T16:00:00+02:00",
        datetime(2026, 5, 31, 14, tzinfo=UTC),
        datetime(2026, 5, 31, 16, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_a_time_with_its_zone(since: object) -> None:
    with Celery(set_as_current=False) as app:
        app.conf.fair_ledger_since = since
        assert Settings.of(app).ledger_since == datetime(2026, 5, 31, 14, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("since", ["2026-05-31T14:00:00", "yesterday", "", 1780236000, True])
def test_and_nothing_else(since: object) -> None:
    with Celery(set_as_current=False) as app:
        app.conf.fair_ledger_since = since
        with pytest.raises(ImproperlyConfigured, match="fair_ledger_since must be a time with"):
            Settings.of(app)
