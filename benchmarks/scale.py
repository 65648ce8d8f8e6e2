"""What a thousand idle queues cost a worker, and ten thousand ETAs one that stops.

    python -m benchmarks.scale [--json] [--rounds N] [--queues N] [--etas N] [BROKER ...]

Workers (solo) that consume so many idle queues: seconds until the worker is ready, and then its
share of a processor, and its memory; *once* is a worker whose app has non-repeatable tasks. And, on
Redis, workers that hold so many messages with an ETA, of such tasks there: seconds from SIGTERM to
the end. Vanilla Celery takes part in each round; ratios are medians of those within one.
"""

import json
from argparse import ArgumentParser
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

from psutil import Process

from benchmarks.progress import Progress
from benchmarks.turns import serving
from tests.brokers import RabbitMQ, RedisServer
from tests.brokers.space import Space
from tests.integration.depths import unsettled
from tests.publishing import publish
from tests.waiting import wait_for
from tests.workers import WorkerProcess, starting_workers

BROKERS: dict[str, Callable[[], RabbitMQ | RedisServer]] = {
    "redis": RedisServer,
    "rabbitmq": RabbitMQ,
}
APPS = {"vanilla": "tests.apps.shares", "fair": "tests.apps.shares", "once": "tests.apps.once"}
REST = 5.0
"""Seconds after a worker is ready, of which nothing counts."""
IDLE = 15.0
"""Seconds of idling that count."""
PATIENCE = 900


def started(start: Any, space: Space, kind: str, queues: list[str]) -> WorkerProcess:
    """A worker of this kind, that is ready."""
    worker: WorkerProcess = start(
        space, app=APPS[kind], queues=queues, fair=kind != "vanilla", wait=False
    )
    return worker.wait_ready(PATIENCE)


def idling(space: Space, kind: str, queues: int) -> dict[str, float]:
    """Seconds until ready, then the share of a processor, and MiB of memory."""
    names = [f"q{number}" for number in range(queues)]
    with TemporaryDirectory() as folder, starting_workers(Path(folder)) as start:
        before = monotonic()
        worker = started(start, space, kind, names)
        ready = monotonic() - before
        sleep(REST)
        cpu, since = worker.cpu_seconds(), monotonic()
        sleep(IDLE)
        idle = (worker.cpu_seconds() - cpu) / (monotonic() - since)
        memory = Process(worker.pid).memory_info().rss / 2**20
        return {"ready": ready, "idle": idle, "memory": memory}


def stopping(space: Space, kind: str, etas: int) -> dict[str, float]:
    """Seconds that a warm stop takes."""
    eta = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    task = "before" if kind == "once" else "noop"
    publish(space.url, {"etas": etas}, task, headers={"eta": eta})
    with TemporaryDirectory() as folder, starting_workers(Path(folder)) as start:
        worker = started(start, space, kind, ["etas"])
        wait_for(lambda: unsettled(space, "etas") >= etas, PATIENCE, "all ETAs to be held")
        before = monotonic()
        worker.stop(PATIENCE)
        return {"stop": monotonic() - before}


def main() -> None:
    parser = ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--rounds", type=int, default=1, help="(default: 1)")
    parser.add_argument("--queues", type=int, default=1000, help="(default: 1000)")
    parser.add_argument("--etas", type=int, default=10000, help="(default: 10000)")
    parser.add_argument("brokers", nargs="*", metavar="BROKER", help="redis, rabbitmq (both)")
    args = parser.parse_args()
    brokers = args.brokers or list(BROKERS)
    progress = Progress(len(brokers) * args.rounds * 2 * len(APPS))
    rows = [row for name in brokers for row in _rows(name, args, progress)]
    progress.close()
    print(json.dumps(rows)) if args.json else show(rows)


def _rows(broker: str, args: Any, progress: Progress) -> list[dict[str, Any]]:
    runs: dict[str, list[dict[str, float]]] = {kind: [] for kind in APPS}
    with serving(BROKERS[broker]()) as server:
        for _ in range(args.rounds):
            for kind, figures in runs.items():
                figures.append(idling(server.space(), kind, args.queues))
                progress.step(kind)
                if broker == "redis":
                    figures[-1] |= stopping(server.space(), kind, args.etas)
                progress.step(kind)
    return [_medians(broker, kind, figures, runs["vanilla"]) for kind, figures in runs.items()]


def _medians(
    broker: str, kind: str, runs: list[dict[str, float]], vanilla: list[dict[str, float]]
) -> dict[str, Any]:
    row: dict[str, Any] = {"broker": broker, "worker": kind}
    for name in runs[0]:
        row[name] = median(run[name] for run in runs)
        if name == "idle":
            continue  # vanilla's may be nothing that can be measured
        row[f"{name} ratio"] = median(
            ours[name] / theirs[name] for ours, theirs in zip(runs, vanilla, strict=True)
        )
    return row


def show(rows: list[dict[str, Any]]) -> None:
    print(
        f"{'broker':<9} {'worker':<8} {'ready, s':>9} {'ratio':>6} {'idle, %':>8}"
        f" {'MiB':>5} {'ratio':>6} {'stop, s':>8} {'ratio':>6}"
    )
    for r in rows:
        stop = f"{r['stop']:>8.1f} {r['stop ratio']:>6.2f}" if "stop" in r else ""
        print(
            f"{r['broker']:<9} {r['worker']:<8} {r['ready']:>9.1f} {r['ready ratio']:>6.2f}"
            f" {100 * r['idle']:>8.1f} {r['memory']:>5.0f} {r['memory ratio']:>6.2f} {stop}"
        )


if __name__ == "__main__":
    main()
