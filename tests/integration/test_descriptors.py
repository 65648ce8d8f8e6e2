"""A worker that often loses its broker keeps no more open of what is lost than Celery's own does.

Kombu leaves channels open when it closes those of a lost connection, and so Celery's own worker
keeps some descriptors of each, too. Both go through the same restarts. (In milliseconds, what our
channel keeps is shown in `tests/test_redis_source.py`.)
"""

from __future__ import annotations

from contextlib import suppress

import psutil
import pytest

from tests.brokers import RedisServer
from tests.publishing import publish
from tests.waiting import wait_for
from tests.workers import StartWorker, WorkerProcess

RESTARTS = 5
SLACK = 2
"""Descriptors of what comes and goes; one that is lost at each restart makes five."""


def held(worker: WorkerProcess) -> int:
    return psutil.Process(worker.pid).num_fds()


def answers(worker: WorkerProcess) -> bool:
    """Whether the worker is back; the client's own connection is one to the server of before."""
    with suppress(OSError, *worker.client.connection_for_write().recoverable_connection_errors):
        return bool(worker.client.control.ping([worker.hostname], timeout=1))
    return False


@pytest.mark.wide
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_no_descriptors_are_lost(
    own_redis: RedisServer, start_worker: StartWorker, pool: str
) -> None:
    urls = own_redis.url("1"), own_redis.url("2")
    workers = [
        start_worker(url, fair=fair, pool=pool, queues=["a"], loglevel="INFO", wait=False)
        for url, fair in zip(urls, (True, False), strict=True)
    ]
    for worker in workers:
        worker.wait_ready()
    counts: list[tuple[int, ...]] = []
    for _ in range(RESTARTS + 1):  # the first one makes what is made once
        own_redis.restart()
        for worker, url in zip(workers, urls, strict=True):
            wait_for(lambda worker=worker: answers(worker), 60, worker.log)
            worker.records.started.wait_once(publish(url, {"a": 5}).all())
        counts.append(tuple(held(worker) for worker in workers))
    ours, celerys = (after - before for before, after in zip(counts[0], counts[-1], strict=True))
    assert ours <= celerys + SLACK, counts
