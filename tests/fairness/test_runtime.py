"""`fair_cost = "runtime"`: what is shared is processing time, of whatever tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import shares
from tests.brokers import Space
from tests.fairness.sample import weighed
from tests.publishing import publish
from tests.waiting import wait_for
from tests.workers import StartWorker, WorkerProcess

pytestmark = pytest.mark.newest

QUANTA = {"light": 4, "heavy": 8, "mixed": 4}
NAPS = {"light": [0.004], "heavy": [0.04], "mixed": [0.002, 0.03]}
"""Seconds that the tasks of a queue take, in turn."""
QUEUES = {"fair_queues": {name: {"quantum": quantum} for name, quantum in QUANTA.items()}}
RUNTIME = QUEUES | {"fair_cost": "runtime"}
BY_KEY = RUNTIME | {"fair_cost_key": "tests.fairness.costs.second_argument"}
COUNTS = {"light": 800, "heavy": 160, "mixed": 200}
STARTS, WARM_UP, EDGE = 520, 60, 40


def publish_all(url: str) -> None:
    for _ in range(20):
        for queue, naps in NAPS.items():
            for seconds in naps:
                number = COUNTS[queue] // 20 // len(naps)
                publish(url, {queue: number}, "nap", [seconds], persistent=False)


def run(space: Space, start_worker: StartWorker, **options: Any) -> dict[str, float]:
    """Work for a while, all queues backlogged; returns the error of each share of seconds."""
    publish_all(space.url)
    worker: WorkerProcess = start_worker(space, queues=QUANTA, **options)
    worker.records.started.wait(STARTS, timeout=100)
    ends = {record.id: record.wall for record in worker.records.finished.read()}
    starts = shares.while_backlogged(worker.records.started.read(), COUNTS, warm_up=WARM_UP)
    starts = [record for record in starts if record.id in ends]
    got = weighed(starts, EDGE, lambda record: ends[record.id] - record.wall)
    return shares.share_errors(got, QUANTA)


@pytest.mark.parametrize(("pool", "concurrency"), [("solo", 1), ("threads", 3)])
def test_shares_of_time(
    rabbitmq_space: Space, start_worker: StartWorker, pool: str, concurrency: int
) -> None:
    errors = run(rabbitmq_space, start_worker, pool=pool, concurrency=concurrency, conf=BY_KEY)
    print(errors)
    assert max(map(abs, errors.values())) <= 0.06, errors


def test_shares_of_time_under_prefork(redis_space: Space, start_worker: StartWorker) -> None:
    errors = run(redis_space, start_worker, pool="prefork", concurrency=2, conf=BY_KEY)
    print(errors)
    assert max(map(abs, errors.values())) <= 0.06, errors


def test_shares_of_time_without_keys(redis_space: Space, start_worker: StartWorker) -> None:
    errors = run(redis_space, start_worker, pool="threads", concurrency=3, conf=RUNTIME)
    print(errors)
    assert max(map(abs, errors.values())) <= 0.06, errors


def test_shares_of_messages(redis_space: Space, start_worker: StartWorker) -> None:
    errors = run(redis_space, start_worker, pool="threads", concurrency=3, conf=QUEUES)
    assert max(map(abs, errors.values())) > 0.2, errors


def test_model_is_loaded_again_when_it_changes(
    redis_space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    model = tmp_path / "costs.json"
    conf = RUNTIME | {"fair_cost_model": str(model)}
    worker = start_worker(redis_space, queues=QUANTA, conf=conf, loglevel="INFO")

    def work_until(words: str, times: int = 1) -> None:
        """A worker looks when it has something to do."""

        def told() -> bool:
            publish(redis_space.url, {"light": 1}, "nap", [0])
            return worker.log().count(words) >= times

        wait_for(told, 30, worker.log, interval=0.2)

    work_until("is not loaded: [Errno 2]")
    for times, seconds in enumerate((0.1, 0.2), start=1):
        mean = {"mean": seconds, "n": 50}
        model.write_text(json.dumps({"v": 1, "tasks": {"nap": mean}, "keys": {}}))
        work_until("Loaded the run times", times)
    model.write_text("{")
    work_until("is not loaded: Expecting")
    assert worker.running
