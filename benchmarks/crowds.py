"""Crowds on one Redis, in one table: many keys, a flood behind one key, many workers.

    python -m benchmarks.crowds [--json] [--keys N] [--flood N] [--workers N]

keys     so many messages wait, each of a key of its own
flood    so many messages of one key wait
workers  so many workers (solo) take from ten queues of one Redis, in turns with Celery's own

Of the first two: how many messages the worker starts a second (threads 8, tasks that do nothing),
once all are sorted, and its memory. They were published without celery-fair, so the worker sorts
them first: the seconds that takes. Of the second also how long a message waits, in milliseconds, of
a key that comes then, median and longest of ten. (Behind keys that all had nothing yet it waits for
one message of each, as is fair.) Of the last: tasks per second of all workers together, and
microseconds of Redis's processor for a task.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from psutil import Process

from benchmarks.counts import Counts
from benchmarks.progress import Progress
from benchmarks.turns import parser_of, serving, show_rows
from celery_fair.headers import FAIR_KEY
from tests.brokers import RedisServer
from tests.brokers.space import Space
from tests.publishing import publish
from tests.waiting import wait_for
from tests.workers import WorkerProcess, starting_workers

QUEUE = "jobs"
QUIET = 10
AT_ONCE = 5_000
SECONDS = 10.0
PATIENCE = 900
MIB = 1 << 20
Row = dict[str, Any]


def fill(space: Space, keys: int, each: int) -> None:
    """Publish as one does who knows nothing of keys' lists."""
    (old,) = publish(space.url, {QUEUE: 1}, "plain", headers={FAIR_KEY: "somebody"}).all()
    client = space.server.client_of(space.place)
    (message,) = client.lrange(QUEUE, 0, -1)
    client.delete(QUEUE)
    made = (
        message.replace(old.encode(), str(uuid4()).encode()).replace(b"somebody", b"k%d" % key)
        for key in range(keys)
        for _ in range(each)
    )
    while some := [each for each, _ in zip(made, range(AT_ONCE), strict=False)]:
        client.lpush(QUEUE, *some)


def crowd(server: RedisServer, what: str, keys: int, each: int) -> Row:
    space = server.space()
    fill(space, keys, each)
    conf = {"fair_keys": {QUEUE: {}}}
    options: Row = {"app": "benchmarks.counted", "pool": "threads", "concurrency": 8}
    with TemporaryDirectory() as folder, starting_workers(Path(folder)) as start:
        worker = start(space, queues=[QUEUE], conf=conf, quiet=False, **options)
        client, began = server.client_of(space.place), monotonic()
        wait_for(lambda: not client.llen(QUEUE), PATIENCE, "all to be sorted")
        row = {"what": what, "messages": keys * each, "sorted, s": monotonic() - began}
        counts = Counts(worker.records.prefix)
        before, since = len(counts), monotonic()
        sleep(SECONDS)
        row["tasks/s"] = (len(counts) - before) / (monotonic() - since)
        row |= {"quiet, ms": "", "longest": "", "MiB": Process(worker.pid).memory_info().rss / MIB}
        if keys == 1:
            waits = sorted(waited(space, worker))
            row |= {"quiet, ms": 1000 * median(waits), "longest": 1000 * waits[-1]}
        assert len(counts) < keys * each, "too few messages: the worker ran dry"
        return row


def waited(space: Space, worker: WorkerProcess) -> Iterator[float]:
    """How long messages wait, each of a key that is new."""
    for number in range(QUIET):
        began = monotonic()
        ids = publish(space.url, {QUEUE: 1}, headers={FAIR_KEY: f"quiet{number}"}).all()
        (record,) = (each for each in worker.records.started.wait_ids(ids) if each.id in ids)
        yield record.monotonic_ns / 1e9 - began


def together(server: RedisServer, workers: int, fair: bool) -> tuple[float, float]:
    """Tasks per second of all, and microseconds of Redis for each."""
    space = server.space()
    queues = [f"p{number}" for number in range(10)]
    conf = {"fair_queues": {name: {"quantum": 4} for name in queues}} if fair else {}
    options: Row = {"app": "benchmarks.counted", "pool": "solo", "fair": fair, "quiet": False}
    with TemporaryDirectory() as folder, starting_workers(Path(folder)) as start:
        all_ = [
            start(space, queues=queues, conf=conf, wait=False, **options) for _ in range(workers)
        ]
        for worker in all_:
            worker.wait_ready(PATIENCE)
        counts, redis = Counts(all_[0].records.prefix), Process(server.pid)
        total = 2_000 * workers
        publish(space.url, dict.fromkeys(queues, total // len(queues)), "plain")
        wait_for(lambda: len(counts) > total // 10, PATIENCE, "the first tenth")
        cpu, before, since = sum(redis.cpu_times()[:2]), len(counts), monotonic()
        wait_for(lambda: len(counts) > total * 9 // 10, PATIENCE, "all but the last tenth")
        done = len(counts) - before
        speed = done / (monotonic() - since)
        return speed, 1e6 * (sum(redis.cpu_times()[:2]) - cpu) / done


def main() -> None:
    parser = parser_of("benchmarks.crowds", __doc__)
    parser.add_argument("--keys", type=int, default=100_000, help="(default: %(default)s)")
    parser.add_argument("--flood", type=int, default=1_000_000, help="(default: %(default)s)")
    parser.add_argument("--workers", type=int, default=16, help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of workers (default: %(default)s)")
    args = parser.parse_args()
    progress = Progress(2 + 2 * args.rounds)
    with ExitStack() as stack:
        server = stack.enter_context(serving(RedisServer()))
        rows = [crowd(server, "keys", args.keys, 1)]
        progress.step("keys")
        rows.append(crowd(server, "flood", 1, args.flood))
        progress.step("flood")
        turns = []
        for fair in [False, True] * args.rounds:
            turns.append((fair, *together(server, args.workers, fair)))
            progress.step("workers")
    theirs, ours = ([turn[1:] for turn in turns if turn[0] is fair] for fair in (False, True))
    workers = {
        "workers": args.workers,
        "vanilla, tasks/s": median(speed for speed, _ in theirs),
        "fair, tasks/s": median(speed for speed, _ in ours),
        "ratio": median(a / b for (a, _), (b, _) in zip(ours, theirs, strict=True)),
        "Redis's µs, vanilla": median(cpu for _, cpu in theirs),
        "fair": median(cpu for _, cpu in ours),
    }
    if args.json:
        print(json.dumps({"crowds": rows, "workers": workers}))
    else:
        show_rows(rows)
        show_rows([workers])


if __name__ == "__main__":
    main()
