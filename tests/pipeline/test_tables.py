"""The sources' two tables, told apart by the log: a worker that is fair, and one that is starved.

As in the sources: ten queues with quanta from 4 to 40, a cost of 4, and a backlog throughout. In
Table 1 the worker is slower than its broker. In Table 2 it outruns it, by the sources' own policy:
equal windows, and no wait for a refill; here the link to the broker is what is slow.

The sources' tasks of 100 and of 1 µs are naps here, many at once. Their run times, in which shares
are counted, are then the same on a machine that has other work, and of a length at which it does
not matter that the task itself begins to measure somewhat later than the log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from celery_fair.pipeline.gold.fairness import fairness
from tests.brokers import RabbitMQ, Space
from tests.fairness.ten_queues import AT_COST_4, QUANTA
from tests.faults.proxy import Proxy
from tests.pipeline.staged import Silver, silver_of
from tests.publishing import publish
from tests.records import Records
from tests.shares import ratio
from tests.workers import StartWorker, WorkerProcess

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

NAP = 0.5
SLOTS = 200
STARTS = 1500
EACH = dict.fromkeys(QUANTA, 800)
EQUAL = {name: {"quantum": quantum, "prefetch": 100} for name, quantum in QUANTA.items()}
SLOW = 500_000
PADDING = {"padding": 1000 * "x"}
ENDLESS = 1e9
"""Seconds of an interval: all is in one."""

Shares = dict[str, float]


@pytest.fixture
def spaces(rabbitmq: RabbitMQ) -> Iterator[tuple[Space, Space]]:
    """One for each table: their queues have the same names."""
    spaces = rabbitmq.space(), rabbitmq.space()
    yield spaces
    for space in spaces:
        rabbitmq.delete_vhost(space.place)


@pytest.mark.wide
def test_a_fair_worker_and_a_starved_one(
    spark: SparkSession, spaces: tuple[Space, Space], start_worker: StartWorker, tmp_path: Path
) -> None:
    workers = worked(spaces, start_worker, tmp_path)
    silver = silver_of(spark, tmp_path / "log")
    rows = fairness(*silver, ENDLESS).collect()
    fair, starved = ({r["queue"]: r for r in rows if r["node"] == w.hostname} for w in workers)

    assert verdicts(fair) == dict.fromkeys(QUANTA, "FAIR")
    assert {verdicts(starved)[queue] for queue in ("p8", "p9")} == {"STARVED_BY_BROKER"}
    assert set(verdicts(starved).values()) == {"FAIR", "STARVED_BY_BROKER"}
    of_table = [{queue: row["share"] for queue, row in each.items()} for each in (fair, starved)]
    of_tasks = [shares(silver, worker) for worker in workers]
    # In points: where a share is 2 %, one thread that wakes late is more than a percent of it.
    errors = [
        max(abs(table[queue] - tasks[queue]) for queue in QUANTA)
        for table, tasks in zip(of_table, of_tasks, strict=True)
    ]
    print("p9/p0 {:.2f} and {:.2f}".format(*map(ratio, of_table)))
    print("off what tasks recorded: {:.2%} and {:.2%}".format(*errors))
    assert ratio(of_table[0]) == pytest.approx(10, rel=0.2)
    assert ratio(of_table[1]) == pytest.approx(1, rel=0.4)
    assert max(errors) <= 0.005


def worked(
    spaces: tuple[Space, Space], start_worker: StartWorker, folder: Path
) -> list[WorkerProcess]:
    """Let a worker start so much of each table; return both, which have ended."""
    options: dict[str, Any] = {"pool": "threads", "concurrency": SLOTS, "queues": QUANTA}
    conf = AT_COST_4 | {"fair_event_log": str(folder / "log")}
    first, second = (options | {"records": Records(folder / table)} for table in "12")
    with Proxy(spaces[1]) as proxy:
        fair = start_worker(spaces[0], conf=conf, **first)
        second |= {"app": "benchmarks.sources_policy", "conf": conf | {"fair_queues": EQUAL}}
        starved = start_worker(proxy.url, **second)
        proxy.slow(SLOW)
        for space, headers in zip(spaces, ({}, PADDING), strict=True):
            publish(space.url, EACH, "nap", [NAP], headers=headers, persistent=False)
        for worker in (fair, starved):
            worker.records.started.wait(STARTS, timeout=200)
            worker.sigterm()
        proxy.release()  # the answers to its goodbyes stand behind what was sent to it
        for worker in (fair, starved):
            assert worker.wait() == 0
    return [fair, starved]


def verdicts(rows: dict[str, Row]) -> dict[str, str]:
    return {queue: row["verdict"] for queue, row in rows.items()}


def shares(silver: Silver, worker: WorkerProcess) -> Shares:
    """Of each queue, by the run times that tasks recorded, while it and another were backlogged."""
    node = F.col("node") == worker.hostname
    times = defaultdict(list)
    for row in silver.backlog.where(node & F.expr("state = 'ready' or starved")).collect():
        times[row["queue"]].append((row["since"], row["until"]))

    def within(at: float, queue: str) -> bool:
        return any(since <= at < until for since, until in times[queue])

    began = {row["id"]: row["started_at"] for row in silver.attempts.where(node).collect()}
    ended = {record.id: record.monotonic_ns for record in worker.records.finished.read()}
    took = [
        (began[start.id], start.queue, ended[start.id] - start.monotonic_ns)
        for start in worker.records.started.read()
        if within(began[start.id], start.queue)
        and sum(within(began[start.id], queue) for queue in QUANTA) > 1
    ]
    return {
        queue: sum(ns for _, of, ns in took if of == queue)
        / sum(ns for at, _, ns in took if within(at, queue))
        for queue in QUANTA
    }
