"""Why nothing of a queue starts: a test makes each cause happen, and ends it."""

from __future__ import annotations

from celery_fair.core.gate import SLACK
from tests.integration.gate import Gate
from tests.live.conftest import THREADS, Ask
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import WorkerProcess


def reason(ask: Ask, queue: str) -> str:
    answer = ask("explain", queue)
    assert answer["queue"] == queue
    print(answer["text"])
    return str(answer["reason"])


def test_no_message(worker: WorkerProcess, ask: Ask) -> None:
    assert reason(ask, "rest") == "no_message"


def test_paused(worker: WorkerProcess, ask: Ask) -> None:
    ask("pause", "rest")
    ids = publish(worker.broker_url, {"rest": 2})
    assert reason(ask, "rest") == "paused"

    ask("resume", "rest")
    worker.records.started.wait_once(ids.all())


def test_cap(worker: WorkerProcess, ask: Ask, gate: Gate) -> None:
    gate.hold(worker, "capped", 2)
    ids = publish(worker.broker_url, {"capped": 2})
    wait_equal(lambda: reason(ask, "capped"), "cap")
    assert "2 in flight of at most 2" in ask("explain", "capped")["text"]

    gate.open()
    worker.records.started.wait_once(ids.all())


def test_leash(worker: WorkerProcess, ask: Ask) -> None:
    """Its token is far away, until the rate is changed for a while; others start meanwhile."""
    ids = publish(worker.broker_url, {"leashed": 2})
    worker.records.started.wait_ids(ids["leashed"][:1])
    wait_equal(lambda: reason(ask, "leashed"), "leash")
    assert "its leash has no token: 0.01/s, the next in " in ask("explain", "leashed")["text"]
    assert 0 < ask("status")["leashed"]["throttled_seconds"] <= 100 + SLACK + 0.1
    others = publish(worker.broker_url, {"rest": 20}).all()
    worker.records.started.wait_once(others)

    assert "ok" in ask("set", "leashed", rate="30/m")
    worker.records.started.wait_once(ids.all())
    assert "ok" in ask("set", "leashed", rate="36/h")


def test_no_slot(worker: WorkerProcess, ask: Ask, gate: Gate) -> None:
    gate.hold(worker, "rest", THREADS)
    ids = publish(worker.broker_url, {"a": 3, "b": 1})
    wait_equal(lambda: [reason(ask, queue) for queue in "ab"], ["no_slot"] * 2)
    assert f"{THREADS} of {THREADS} are busy" in ask("explain", "a")["text"]
    turns = {ask("explain", queue)["text"].partition(":")[0] for queue in "ab"}
    assert turns <= {"its turn is next", *(f"it comes after {n} of the others" for n in (1, 2))}
    assert len(turns) == 2

    gate.open()
    worker.records.started.wait_once(ids.all())


def test_no_credit(worker: WorkerProcess, ask: Ask, gate: Gate) -> None:
    """A message that costs five thousand times its queue's quantum, beside many cheap ones."""
    one = Gate()
    one.hold(worker, "rest", 1)
    gate.hold(worker, "rest", THREADS - 1)
    dear = publish(worker.broker_url, {"large": 1}, "spin", [5000])
    cheap = publish(worker.broker_url, {"small": 20}, "hold", [str(gate.path)])
    wait_equal(lambda: [reason(ask, queue) for queue in ("large", "small")], ["no_slot"] * 2)

    one.open()

    wait_equal(lambda: worker.records.started.times(cheap.all()).total(), 1)
    assert reason(ask, "large") == "no_credit"
    assert not worker.records.started.times(dear.all())
    gate.open()
    worker.records.started.wait_once([*dear.all(), *cheap.all()])
