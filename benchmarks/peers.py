"""Celery, celery-fair, dramatiq and taskiq on the same brokers: start, speed, memory.

    python -m venv var/peers
    var/peers/bin/pip install 'dramatiq[rabbitmq,redis]' taskiq taskiq-aio-pika taskiq-redis
    python -m benchmarks.peers [--bin var/peers/bin] [--json] [--rounds N] [BROKER ...]

Each is started by its own command, as its manual says, with two processes and a task at a time in
each, behind so many messages in one queue: tasks that do nothing, and a tenth as many of 10 ms.
*Ready* is how long it takes from the command until the first task starts; *speed* are tasks a
second from the tenth part of the backlog to nine tenths; MiB are of all its processes, each page
that they share counted once. Medians of the rounds, in which everybody has a turn.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from statistics import median
from subprocess import run
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from psutil import Process as Running

from benchmarks.counts import Counts
from benchmarks.progress import Progress
from benchmarks.turns import parser_of, serving, show_rows
from tests.brokers import RabbitMQ, RedisServer
from tests.brokers.space import Space
from tests.processes import ROOT, Process
from tests.publishing import publish
from tests.waiting import wait_for
from tests.workers import starting_workers

BROKERS: dict[str, Callable[[], RabbitMQ | RedisServer]] = {
    "redis": RedisServer,
    "rabbitmq": RabbitMQ,
}
TASKS = {"plain": 1, "10 ms": 10}
"""By task, which part of the messages there is of it."""
QUEUE = "jobs"
PATIENCE = 300
ONE_AT_A_TIME = ("--max-async-tasks", "1", "--max-threadpool-threads", "1")
PEERS = {
    "dramatiq": ["dramatiq", "benchmarks.peer_app:broker", "-p", "2", "-t", "1", "-Q", QUEUE],
    "taskiq": ["taskiq", "worker", "benchmarks.peer_app:broker", "-w", "2", *ONE_AT_A_TIME],
}
CONTESTANTS = ("celery", "celery-fair", *PEERS)


@contextmanager
def working(
    name: str, space: Space, task: str, messages: int, folder: Path, bin_: Path
) -> Iterator[tuple[float, int, Path]]:
    """Have a worker at work on so many messages: when it was started, its pid, where it counts."""
    if name in PEERS:
        counts = folder / "tasks"
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PEER_BROKER": space.url,
            "PEER_COUNTS": str(counts),
            "PEER_LIBRARY": name,
        }
        python = [bin_ / "python", "-m", "benchmarks.peer_app", task, str(messages)]
        run(python, env=env | {"PEER_COUNTS": str(folder / "none")}, check=True, cwd=ROOT)
        command, *arguments = PEERS[name]
        began = monotonic()
        process = Process([bin_ / command, *arguments], folder / "worker.log", env, cwd=ROOT)
        try:
            yield began, process.pid, counts
        finally:
            process.end()
        return
    publish(space.url, {QUEUE: messages}, task)
    with starting_workers(folder) as start:
        began = monotonic()
        worker = start(
            space,
            app="benchmarks.counted",
            fair=name != "celery",
            queues=[QUEUE],
            pool="prefork",
            concurrency=2,
            loglevel="INFO",
            quiet=False,
            afresh=True,
            wait=False,
        )
        yield began, worker.pid, worker.records.prefix


def measured(name: str, space: Space, task: str, messages: int, bin_: Path) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        there = working(name, space, task, messages, Path(folder), bin_)
        with there as (began, pid, prefix):
            counts, reached = Counts(prefix), []
            for part in (1, messages // 10, messages - messages // 10):
                wait_for(lambda least=part: len(counts) >= least, PATIENCE, f"{part} tasks", 0.005)
                reached.append(monotonic())
            return {
                "ready": reached[0] - began,
                "speed": 0.8 * messages / (reached[2] - reached[1]),
                "MiB": memory(pid),
            }


def memory(pid: int) -> float:
    """Of a process and all below it, in MiB."""
    main = Running(pid)
    every = (main, *main.children(recursive=True))
    return sum(each.memory_full_info().pss for each in every) / 2**20


def main() -> None:
    parser = parser_of("benchmarks.peers", __doc__)
    parser.add_argument("--rounds", type=int, default=3, help="(default: 3)")
    parser.add_argument("--messages", type=int, default=20000, help="(default: 20000)")
    parser.add_argument("--bin", type=Path, default=Path("var/peers/bin"), help="where peers are")
    parser.add_argument("brokers", nargs="*", metavar="BROKER", help="redis, rabbitmq (both)")
    args = parser.parse_args()
    missing = [peer for peer in (*PEERS, "python") if not (args.bin / peer).exists()]
    if missing:
        sys.exit(f"no {', '.join(missing)} in {args.bin}; --help says how it comes there")
    every = list(product(args.brokers or BROKERS, TASKS, CONTESTANTS))
    runs: dict[tuple[str, str, str], list[dict[str, float]]] = {each: [] for each in every}
    progress = Progress(args.rounds * len(every))
    for _ in range(args.rounds):
        for broker, task, name in every:
            with serving(BROKERS[broker]()) as server:
                messages = args.messages // TASKS[task]
                found = measured(name, server.space(), task, messages, args.bin.absolute())
            runs[broker, task, name].append(found)
            progress.step(f"{broker}, {task}: {name}")
    progress.close()
    rows: list[dict[str, Any]] = [
        {"broker": broker, "task": task, "worker": name}
        | {figure: median(run[figure] for run in of) for figure in of[0]}
        for (broker, task, name), of in runs.items()
    ]
    print(json.dumps(rows)) if args.json else show_rows(rows, 1)


if __name__ == "__main__":
    main()
