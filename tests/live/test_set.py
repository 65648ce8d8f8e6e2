"""Options that are set while the worker runs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.apps.recorder import Record
from tests.live.conftest import CONF, Ask
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import WorkerProcess

SECOND = 1_000_000_000


def test_shares_follow_within_a_second(worker: WorkerProcess, ask: Ask) -> None:
    """Those of messages that were waiting already."""
    started = worker.records.started
    before = len(started)
    ids = publish(worker.broker_url, {"a": 500, "b": 1800}, "nap", [0.02])
    started.wait(before + 200)

    assert "ok" in ask("set", "b", quantum=9)

    changed = started.read()[-1].monotonic_ns

    def later() -> list[Record]:
        return [record for record in started.read() if record.monotonic_ns > changed + SECOND]

    wait_for(lambda: len(later()) >= 200, 30, "starts a second later")
    starts = later()[:200]
    assert {ids[queue][-1] for queue in "ab"}.isdisjoint(
        record.id for record in started.read() if record <= starts[-1]
    ), "the backlog was too small"
    shares = Counter(record.queue for record in starts)
    assert 0.85 <= shares["b"] / shares.total() <= 0.95, shares
    ask("set", "b", quantum=1)
    started.wait_once(ids.all())


def test_rate_and_its_end(worker: WorkerProcess, ask: Ask) -> None:
    assert "ok" in ask("set", "throttled", rate="2/s", burst=3)
    ids = publish(worker.broker_url, {"throttled": 40}).all()
    worker.records.started.wait_ids(ids[:4])
    assert ask("status")["throttled"]["rate"] == 2
    assert worker.records.started.times(ids).total() < 40

    assert "ok" in ask("set", "throttled", rate=None)
    worker.records.started.wait_once(ids)


def test_each_token_is_used_when_it_comes(worker: WorkerProcess, ask: Ask) -> None:
    """Nothing else wakes the worker meanwhile: it sleeps until the next token."""
    assert "ok" in ask("set", "throttled", rate="20/s", burst=1)
    ids = publish(worker.broker_url, {"throttled": 20}).all()
    worker.records.started.wait_once(ids, timeout=15)
    assert "ok" in ask("set", "throttled", rate=None)


def test_prefetch_is_exact(worker: WorkerProcess, ask: Ask) -> None:
    for window in (50, 49, 3):
        assert "ok" in ask("set", "windowed", prefetch=window)
        wait_equal(lambda: ask("status")["windowed"]["window"], window)


def test_pause_and_resume(worker: WorkerProcess, ask: Ask) -> None:
    assert "ok" in ask("pause", "paused")
    ids = publish(worker.broker_url, {"paused": 20, "rest": 20})
    worker.records.started.wait_once(ids["rest"])
    assert not worker.records.started.times(ids["paused"])
    assert ask("status")["paused"]["held"] == "paused"

    assert "ok" in ask("resume", "paused")
    worker.records.started.wait_once(ids["paused"])


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("nowhere", {"quantum": 3}, "queue 'nowhere' is not consumed by this worker; these are:"),
    ("steady", {}, "nothing to set; there are: quantum, target, rate, burst"),
    ("steady", {"colour": 3}, "unknown option 'colour'; there are:"),
    ("steady", {"quantum": 3, "colour": 3}, "unknown option 'colour'"),
    ("steady", {"exclusive": True}, "'exclusive' cannot be changed while consuming; these can:"),
    ("steady", {"class": 3}, "'class' cannot be changed while consuming"),
    ("steady", {"quantum": 0}, "['quantum']: quantum must be a finite number above zero, not 0"),
    ("steady", {"quantum": "much"}, "quantum must be a number above zero, not 'much'"),
    ("steady", {"rate": "10 a second"}, "a rate is a number per second above zero or a text like"),
    ("steady", {"rate": -1}, "a rate is a number per second above zero"),
    (
        "steady",
        {"rate": "10/s", "burst": 0},
        "['burst'] must be a whole number from 1 to 1000000, not 0",
    ),
    (
        "steady",
        {"rate": "10/s", "burst": 1.5},
        "must be a whole number from 1 to 1000000, not 1.5",
    ),
    ("steady", {"target": "95% < 1s"}, "a 'target' can be changed while consuming, not given or"),
    ("steady", {"burst": 3}, "'burst' needs a 'rate', such as '10/s'"),
    ("steady", {"max_in_flight": 0}, "must be a whole number from 1 to 65535, or None, not 0"),
    ("steady", {"prefetch": 70000}, "must be a whole number from 1 to 65535, or None, not 70000"),
]


@pytest.mark.parametrize(("queue", "options", "error"), BAD)
def test_bad_input_changes_nothing(
    worker: WorkerProcess, ask: Ask, queue: str, options: dict[str, Any], error: str
) -> None:
    assert error in ask("set", queue, **options)["error"]

    now = ask("status")["steady"]
    assert (now["quantum"], now["rate"], now["max_in_flight"]) == (1, None, None)


@pytest.mark.parametrize("command", ["explain", "pause", "resume"])
def test_unknown_queue(worker: WorkerProcess, ask: Ask, command: str) -> None:
    error = ask(command, "nowhere")["error"]
    assert "queue 'nowhere' is not consumed by this worker" in error
    assert all(queue in error for queue in CONF["fair_queues"])
