"""What fairness by key takes of those who wait: an idle broker, and a worker's memory.

    python -m benchmarks.lanes [--json] [--lanes N] [--workers N] [--keys N]

idle      processor time of RabbitMQ while nothing is to be done, in parts of a core: workers (solo)
          of a keyed queue that has so many empty lanes, and as many of a queue without keys, one
          after the other. Target: 5 % of a core with 1,000 lanes and 8 workers
memory    resident memory of a worker (solo), in MiB: when it is ready, and the most while it works
          off a backlog of so many keys, a message each; and of as many messages without a key.
          On RabbitMQ a tenth of them, as the front is sorted by some hundreds a second.
          Target: 60 MB at 100,000 keys
"""

import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep
from typing import Any

import psutil
from kombu import Connection, Queue

from benchmarks.counts import Counts
from benchmarks.progress import Progress
from benchmarks.turns import parser_of, serving, show_rows
from celery_fair.brokers.lanes import Lanes
from tests.brokers import RabbitMQ, RedisServer
from tests.brokers.space import Server, Space
from tests.keys.tenants import KEYED, QUEUE, publisher
from tests.publishing import publish
from tests.waiting import wait_for
from tests.workers import starting_workers

REST, WATCHED = 12.0, 20.0
"""Seconds until no lane counts as just used any more, and of a measure."""

APP = "benchmarks.counted"
Rows = list[dict[str, Any]]


def idle(server: RabbitMQ, lanes: int, workers: int, conf: dict[str, Any]) -> float:
    """Return the part of a core that the broker takes."""
    space = server.space()
    made = Lanes(partial(Connection, space.url), Queue(QUEUE), lanes)
    while conf and made.counted() < lanes:
        made.add()
    made.drop()
    with TemporaryDirectory() as folder, starting_workers(Path(folder)) as start:
        for _ in range(workers):
            start(space, app=APP, queues=[QUEUE], conf=conf, quiet=False)
        sleep(REST)
        before = _cpu(server.pid)
        sleep(WATCHED)
        return (_cpu(server.pid) - before) / WATCHED


def _cpu(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def memory(server: Server, messages: int, fill: Callable[[Space, int], None], **conf: Any) -> Any:
    """Return MiB: when the worker is ready, and at the most."""
    space = server.space()
    fill(space, messages)
    with TemporaryDirectory() as folder, starting_workers(Path(folder)) as start:
        worker = start(space, app=APP, queues=["other"], conf=conf)
        process, counts = psutil.Process(worker.pid), Counts(worker.records.prefix)
        ready = most = process.memory_info().rss
        worker.control("add_consumer", queue=QUEUE)

        def done() -> bool:
            nonlocal most
            most = max(most, process.memory_info().rss)
            return len(counts) >= messages

        wait_for(done, 900, lambda: f"{len(counts)} of {messages}")
        return ready / 2**20, most / 2**20


def without_keys(space: Space, messages: int) -> None:
    publish(space.url, {QUEUE: messages}, "plain", persistent=False)


def a_key_each(space: Space, messages: int) -> None:
    """As publishers with this library do."""
    app = publisher(space.url, broker_connection_retry_on_startup=False)
    for number in range(messages):
        app.send_task("plain", [number], fair_key=f"tenant-{number}", delivery_mode=1)
    app.close()


def measure(lanes: int, workers: int, keys: int, progress: Progress) -> dict[str, Rows]:
    """Return the rows of both parts."""
    found: dict[str, Rows] = {"idle": [], "memory": []}
    with ExitStack() as stack:
        rabbitmq = stack.enter_context(serving(RabbitMQ()))
        for name, conf in (("no keys", {}), (f"{lanes} lanes", KEYED)):
            part = idle(rabbitmq, lanes, workers, conf)
            found["idle"].append({"queue": name, "workers": workers, "of a core": part})
            progress.step(f"idle, {name}")
        redis = stack.enter_context(serving(RedisServer()))
        for broker, count in ((redis, keys), (rabbitmq, keys // 10)):
            for name, fill, options in (
                ("no keys", without_keys, {}),
                ("a key each", a_key_each, KEYED),
            ):
                ready, most = memory(broker, count, fill, **options)
                row = {"broker": broker.kind, "messages": count, "of": name}
                found["memory"].append(row | {"ready": ready, "most": most, "more": most - ready})
                progress.step(f"memory, {broker.kind}, {name}")
    return found


def main() -> None:
    parser = parser_of("benchmarks.lanes", __doc__)
    parser.add_argument("--lanes", type=int, default=1000, metavar="N", help="(default: 1000)")
    parser.add_argument("--workers", type=int, default=8, metavar="N", help="(default: 8)")
    parser.add_argument("--keys", type=int, default=100_000, metavar="N", help="(default: 100000)")
    args = parser.parse_args()
    progress = Progress(6)
    found = measure(args.lanes, args.workers, args.keys, progress)
    progress.close()
    if args.json:
        print(json.dumps(found))
    else:
        for rows in found.values():
            show_rows(rows, 3)


if __name__ == "__main__":
    main()
