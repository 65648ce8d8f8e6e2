"""Leashes, by what tasks recorded: every pair of starts is checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import combinations
from typing import Any, cast

import pytest
from redis import Redis

from tests.apps.recorder import Record
from tests.brokers import RabbitMQ, RedisServer, Space
from tests.conftest import KINDS
from tests.live.running import Running, stood_still
from tests.publishing import Ids, publish
from tests.waiting import wait_for
from tests.workers import StartWorker, WorkerProcess, starting_workers

pytestmark = pytest.mark.timeout(240)

RATE, BURST, SECONDS, THREADS = 10, 5, 30, 4
LEASH = {"rate": f"{RATE}/s", "burst": BURST}
QUEUES = {"own": LEASH, "shared": LEASH | {"scope": "cluster"}, "free": {}}


def excess(starts: list[Record]) -> float:
    """By how many starts any window t has more than rate * t; the burst at the most."""
    times = sorted(record.monotonic_ns / 1e9 for record in starts)
    return max(
        j - i + 1 - RATE * (times[j] - times[i]) for i, j in combinations(range(len(times)), 2)
    )


class Stretch:
    """Two workers on a broker, for half a minute; one of the queues is the first's alone."""

    def __init__(self, first: WorkerProcess, second: WorkerProcess, ids: Ids) -> None:
        self.first, self.second, self.ids = first, second, ids
        self.records = first.records

    @property
    def is_over(self) -> bool:
        counts = self.records.started.counts()
        return min(counts["own"], counts["shared"]) >= BURST + RATE * SECONDS

    def starts(self, queue: str) -> list[Record]:
        return sorted(r for r in self.records.started.read() if r.queue == queue)

    def lost(self, first: Record, last: Record, workers: set[int]) -> float:
        """Seconds in which these stood still with a full bucket, between two of their starts.

        They start some of a queue without a leash all the time.
        """
        starts = (r for r in self.records.started.read() if r.pid in workers)
        return stood_still((r for r in starts if first <= r <= last), BURST / RATE)


@pytest.fixture(scope="module")
def stretches(
    rabbitmq: RabbitMQ, redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Stretch]]:
    """Half a minute on both brokers, at the same time."""
    elsewhere = {"fair_leash_url": redis_server.space().url}
    with ExitStack() as stack:
        started: dict[str, Stretch] = {}
        for kind, server, conf in zip(
            KINDS, (rabbitmq, redis_server), (elsewhere, {}), strict=True
        ):
            start = stack.enter_context(starting_workers(tmp_path_factory.mktemp(kind)))
            started[kind] = stretch(server.space(), start, {"fair_queues": QUEUES} | conf)
        wait_for(lambda: all(each.is_over for each in started.values()), 4 * SECONDS, "their end")
        yield started


def stretch(space: Space, start: StartWorker, conf: dict[str, Any]) -> Stretch:
    publish(space.url, {"own": 450, "shared": 450})
    ids = publish(space.url, {"free": 1_800}, "doze", [0.2], persistent=False)
    options: dict[str, Any] = {"pool": "threads", "concurrency": THREADS, "conf": conf}
    first = start(space, **options)
    return Stretch(first, start(space, args=["-Q", "shared,free"], **options), ids)


@pytest.mark.either_broker
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("queue", ["own", "shared"])
def test_no_window_has_more_than_the_law_allows(
    stretches: dict[str, Stretch], kind: str, queue: str
) -> None:
    run = stretches[kind]
    starts = run.starts(queue)

    found = excess(starts)
    workers = {run.first.pid} if queue == "own" else {run.first.pid, run.second.pid}
    took = (starts[-1].monotonic_ns - starts[0].monotonic_ns) / 1e9
    mean = (len(starts) - BURST) / (took - run.lost(starts[0], starts[-1], workers))
    print(f"{len(starts)} starts, at most {found:.2f} + {RATE} t, mean {mean:.3f}/s")
    assert found <= BURST
    assert 0.98 * RATE <= mean <= 1.02 * RATE


@pytest.mark.parametrize("kind", KINDS)
def test_workers_that_are_alike_have_like_parts(stretches: dict[str, Stretch], kind: str) -> None:
    """Each token goes to who has waited longest."""
    run = stretches[kind]
    parts = [sum(r.pid == w.pid for r in run.starts("shared")) for w in (run.first, run.second)]
    print(parts)
    assert min(parts) >= 0.25 * sum(parts), parts


@pytest.mark.parametrize("kind", KINDS)
def test_other_queues_keep_full_speed(stretches: dict[str, Stretch], kind: str) -> None:
    """While leashed ones wait for tokens, most of the time.

    Where they waited with them, slots would be idle for most of the time. Between two tasks of a
    slot are some milliseconds, more on Redis and on a busy machine; a task takes 200 or so.
    """
    free = Running(stretches[kind].records, stretches[kind].ids["free"])

    print(f"{len(free.starts)} starts, {free.mean():.2f} at once, gaps up to {free.longest_gap()}")
    assert free.mean() >= 0.75 * 2 * THREADS
    assert free.longest_gap() <= 0.95  # and so a nap more between two starts


@pytest.mark.wide
def test_while_redis_is_away(
    rabbitmq_space: Space, own_redis: RedisServer, start_worker: StartWorker
) -> None:
    """Each of two workers keeps to its half of the rate, and says so."""
    conf = {"fair_queues": QUEUES, "fair_leash_url": own_redis.url()}
    publish(rabbitmq_space.url, {"shared": 500})
    workers = [start_worker(rabbitmq_space, conf=conf, args=["-Q", "shared"]) for _ in range(2)]
    started = workers[0].records.started
    wait_asked(own_redis, "shared", len(workers))

    own_redis.kill()

    wait_logged(workers, "its share of one in 2: 5/s")
    alone = len(started)
    started.wait(alone + 30)
    assert excess(started.read()) <= BURST

    own_redis.start()
    own_redis.wait_ready()
    wait_logged(workers, "leash of queue shared is back")
    started.wait(len(started) + 30)


def wait_asked(server: RedisServer, queue: str, workers: int) -> None:
    """Until each worker has been told of all: twice, as the last answer may be under way."""
    key, last = f"celery-fair:leash:{{{queue}}}:members", 0.0
    with Redis.from_url(server.url()) as client:

        def asked() -> list[float]:
            found = client.zrange(key, 0, -1, withscores=True)
            times = [score for _, score in cast("list[tuple[bytes, float]]", found)]
            return times if len(times) == workers and min(times) > last else []

        for _ in range(3):
            last = max(wait_for(asked, 30, f"{workers} workers at the leash"))


def wait_logged(workers: list[WorkerProcess], text: str) -> None:
    wait_for(lambda: all(text in worker.log() for worker in workers), 60, text)
