"""`fair_cost = "runtime"`: what is shared is processing time, of whatever tasks.

A task's processing time is what Celery measures and logs. It begins before the
task's first line and ends after its last one, by a tenth of a millisecond each
on an idle machine, which is some per cent of a short task.
"""

from __future__ import annotations

import re
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
COUNTS = {"light": 1200, "heavy": 240, "mixed": 300}
WARM_UP, SAMPLE, EDGE = 60, 800, 40
MOST_ERROR = 0.02


def publish_all(url: str) -> None:
    for _ in range(20):
        for queue, naps in NAPS.items():
            for seconds in naps:
                number = COUNTS[queue] // 20 // len(naps)
                publish(url, {queue: number}, "nap", [seconds], persistent=False)


def run(
    space: Space, start_worker: StartWorker, size: int = SAMPLE, **options: Any
) -> dict[str, float]:
    """Work for a while, all queues backlogged; returns the error of each share of seconds."""
    publish_all(space.url)
    worker = start_worker(space, queues=QUANTA, loglevel="INFO", **options)
    sample = worker.records.started.wait(WARM_UP + size, timeout=100)[: WARM_UP + size]
    assert shares.while_backlogged(sample, COUNTS) == sorted(sample), "a queue ran out"

    ids = [record.id for record in sample]
    ends = {record.id: record for record in worker.records.finished.wait_ids(ids)}
    wait_for(lambda: times(worker).keys() >= set(ids), 30, worker.log)
    took = times(worker)
    for record in sample:  # no less than the task itself saw
        assert took[record.id] >= (ends[record.id].monotonic_ns - record.monotonic_ns) / 1e9
    got = weighed(sorted(sample)[WARM_UP:], EDGE, lambda record: took[record.id])
    errors = shares.share_errors(got, QUANTA)
    print(errors)
    return errors


def times(worker: WorkerProcess) -> dict[str, float]:
    """What the worker says that its tasks took, in seconds."""
    told = re.findall(r"Task nap\[(\S+)\] succeeded in (\S+)s", worker.log())
    return {task_id: float(seconds) for task_id, seconds in told}


def test_shares_of_time(rabbitmq_space: Space, start_worker: StartWorker) -> None:
    errors = run(rabbitmq_space, start_worker, pool="threads", concurrency=3, conf=BY_KEY)
    assert max(map(abs, errors.values())) <= MOST_ERROR, errors


@pytest.mark.wide
@pytest.mark.parametrize(
    ("pool", "concurrency", "conf"),
    [("prefork", 2, BY_KEY), ("threads", 3, RUNTIME)],
    ids=["prefork", "without keys"],
)
def test_shares_of_time_on_redis(
    redis_space: Space, start_worker: StartWorker, pool: str, concurrency: int, conf: dict[str, Any]
) -> None:
    errors = run(redis_space, start_worker, pool=pool, concurrency=concurrency, conf=conf)
    assert max(map(abs, errors.values())) <= MOST_ERROR, errors


@pytest.mark.wide
def test_shares_of_messages(redis_space: Space, start_worker: StartWorker) -> None:
    errors = run(redis_space, start_worker, 300, pool="threads", concurrency=3, conf=QUEUES)
    assert max(map(abs, errors.values())) > 0.2, errors
