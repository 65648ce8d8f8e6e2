"""Targets: in time for its own a queue goes before others, whatever their quanta say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from time import time
from typing import Any

import pytest

from tests.apps.settings import CONSTANTS, PATIENCE
from tests.integration.gate import closing_gate
from tests.publishing import publish
from tests.waiting import wait_for
from tests.workers import WorkerProcess, starting_workers

SLOTS = 2
QUEUES: dict[str, dict[str, Any]] = {
    "reports": {"target": "99% < 1h"},
    "mail": {"target": "95% < 1min", "quantum": 0.01},
    "quiet": {"target": "95% < 1ms", "quantum": 0.01},
    "bulk": {"quantum": 100},
}
PATIENT = {CONSTANTS: {PATIENCE: (0.25, 2.0)}}
"""Seconds for which a refill is waited for, whatever else RabbitMQ has to do."""

PUSHED = [("rabbitmq", "prefork"), ("redis", "prefork")]
WAYS = [*PUSHED, ("rabbitmq", "pull"), ("redis", "pull")]
"""With "pull", in threads, every queue is asked for each of its messages."""


@pytest.fixture(scope="module", params=WAYS, ids="-".join)
def worker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    kind, way = request.param
    pull = {name: each | {"fetch": "pull"} for name, each in QUEUES.items()}
    options: dict[str, Any] = {
        "pool": "prefork" if way == "prefork" else "threads",
        "conf": {"fair_queues": pull if way == "pull" else QUEUES, **PATIENT},
        "concurrency": SLOTS,
    }
    server = request.getfixturevalue("rabbitmq" if kind == "rabbitmq" else "redis_server")
    with starting_workers(tmp_path_factory.mktemp("worker")) as start:
        yield start(server.space(), **options)


def starts(worker: WorkerProcess, ids: list[str]) -> list[str]:
    """Wait until all have started; return their queues, in the order of their starts."""
    worker.records.started.wait_once(ids)
    wanted = set(ids)
    return [r.queue for r in sorted(worker.records.started.read()) if r.id in wanted]


def before_the_last(order: list[str], queue: str) -> int:
    """How many others started before the last one of a queue."""
    last = len(order) - 1 - order[::-1].index(queue)
    return last + 1 - order[: last + 1].count(queue)


def ago(seconds: float) -> dict[str, Any]:
    return {"headers": {"x-fair-published": time() - seconds}}


def wait_here(worker: WorkerProcess, *queues: str) -> None:
    """Wait for what is pushed; where it is not, a worker looks before it chooses."""
    if worker.broker_url.startswith("amqp"):
        for queue in queues:
            wait_for(
                lambda queue=queue: (
                    worker.control("fair_explain", queue=queue)["reason"] != "no_message"
                ),
                30,
                f"a message of {queue}",
            )


def test_what_is_urgent_goes_first(worker: WorkerProcess) -> None:
    """Behind a flood of ten thousand times its quantum, which has its floor, and slips in
    where a refill takes longer than is waited for it.
    """
    url = worker.broker_url
    with closing_gate() as gate:
        gate.hold(worker, "bulk", SLOTS)
        ids = publish(url, {"bulk": 60, "mail": 20}, **ago(30))
        wait_here(worker, "bulk", "mail")
    order = starts(worker, ids.all())
    assert before_the_last(order, "mail") <= 20, order  # all 60, if quanta decided


def test_a_miss_is_told_everywhere(worker: WorkerProcess) -> None:
    """In answers at once, in the log within a minute; and that it was the broker's or a burst's."""
    ids = publish(worker.broker_url, {"quiet": 50}, **ago(5))
    worker.records.started.wait_once(ids.all())
    told = worker.control("fair_status")["quiet"]["aim"]
    assert (told["asked"], told["missed"], told["in_time"]) == ("95% < 1ms", True, 0.0)
    assert told["wait"] >= 5
    assert told["slots"] == SLOTS
    text = worker.control("fair_explain", queue="quiet")["text"]
    assert "Its target is 95% < 1ms; in the last minute 95% of 50 started within " in text
    log = "The target of queue quiet (95% < 1ms) is missed: of"

    def said() -> bool:
        publish(worker.broker_url, {"bulk": 1})
        return log in worker.log()

    wait_for(said, 60, "the log to tell of the miss", interval=1.0)
    lacking = re.search(r"; (\d+) slots here would do, there are (\d+)", worker.log())
    if lacking is None:
        assert "; slots do not lack here" in worker.log()
    else:
        assert int(lacking[1]) > int(lacking[2])
    assert worker.control("fair_status")["bulk"]["aim"] is None


@pytest.mark.parametrize("worker", PUSHED[:1], ids="-".join, indirect=True)
def test_a_target_is_set(worker: WorkerProcess) -> None:
    for asked in ("90% < 2h", QUEUES["reports"]["target"]):
        told = worker.control("fair_set", queue="reports", options={"target": asked})
        assert told == {"ok": f"reports: target={asked}"}
        assert worker.control("fair_status")["reports"]["aim"]["asked"] == asked
    for options in ({"target": None}, {"target": "5s"}):
        assert "error" in worker.control("fair_set", queue="reports", options=options)
    assert worker.control("fair_status")["reports"]["aim"]["asked"] == asked
