"""`fair_cost = "runtime"`: what is shared is processing time, of whatever tasks."""

from __future__ import annotations

from typing import Any

import pytest

from tests import shares
from tests.brokers import Space
from tests.fairness.sample import weighed
from tests.publishing import publish
from tests.workers import StartWorker, WorkerProcess

pytestmark = pytest.mark.newest

QUANTA = {"light": 4, "heavy": 8, "mixed": 4}
NAPS = {"light": [0.004], "heavy": [0.04], "mixed": [0.002, 0.03]}
"""Seconds that the tasks of a queue take, in turn."""
QUEUES = {"fair_queues": {name: {"quantum": quantum} for name, quantum in QUANTA.items()}}
RUNTIME = QUEUES | {"fair_cost": "runtime"}
BY_KEY = RUNTIME | {"fair_cost_key": "tests.fairness.costs.second_argument"}
COUNTS = {"light": 800, "heavy": 160, "mixed": 200}
STARTS, WARM_UP, EDGE = 460, 60, 40


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


def test_shares_of_time(rabbitmq_space: Space, start_worker: StartWorker) -> None:
    errors = run(rabbitmq_space, start_worker, pool="threads", concurrency=3, conf=BY_KEY)
    assert max(map(abs, errors.values())) <= 0.06, errors


@pytest.mark.parametrize(
    ("pool", "concurrency", "conf"),
    [("prefork", 2, BY_KEY), ("threads", 3, RUNTIME)],
    ids=["prefork", "without keys"],
)
def test_shares_of_time_on_redis(
    redis_space: Space, start_worker: StartWorker, pool: str, concurrency: int, conf: dict[str, Any]
) -> None:
    errors = run(redis_space, start_worker, pool=pool, concurrency=concurrency, conf=conf)
    assert max(map(abs, errors.values())) <= 0.06, errors


def test_shares_of_messages(redis_space: Space, start_worker: StartWorker) -> None:
    errors = run(redis_space, start_worker, pool="threads", concurrency=3, conf=QUEUES)
    assert max(map(abs, errors.values())) > 0.2, errors
