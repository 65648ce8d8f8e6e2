"""What an idle queue takes of a worker's memory.

    python -m benchmarks.memory [--json] [--rounds N] [--queues N]

Workers (solo, RabbitMQ) that consume ten idle queues and a thousand, one after the other: the
difference in the main process's resident memory, divided by that in queues. Vanilla Celery is
measured in the same rounds. Resident memory and not what is a process's alone: the workers are
forked from one process that has imported Celery, and what they share with it is the same for all.
"""

import json
from argparse import ArgumentParser
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import sleep
from typing import Any

import psutil

from benchmarks.progress import Progress
from benchmarks.turns import serving
from tests.brokers import RabbitMQ
from tests.brokers.space import Space
from tests.workers import starting_workers

FEW = 10
REST = 1.0
"""Seconds after a worker is ready: it has nothing left to do by then."""


def resident(space: Space, fair: bool, queues: int) -> int:
    """Bytes of a worker of so many idle queues."""
    names = [f"q{number}" for number in range(queues)]
    with TemporaryDirectory() as folder, starting_workers(Path(folder)) as start:
        worker = start(space, app="benchmarks.counted", queues=names, fair=fair)
        sleep(REST)
        return int(psutil.Process(worker.pid).memory_info().rss)


def measure(
    server: RabbitMQ, many: int, rounds: int, progress: Progress
) -> dict[str, dict[str, float]]:
    """Bytes by worker: with few queues, with many, and of each queue."""
    space = server.space()  # one for all: that the queues are there already saves most of the time
    found: dict[str, list[tuple[int, int]]] = {"vanilla": [], "fair": []}
    for _ in range(rounds):
        for name, runs in found.items():
            few, lots = (resident(space, name == "fair", queues) for queues in (FEW, many))
            runs.append((few, lots))
            progress.step(name)
    return {
        name: {
            "few": median(few for few, _ in runs),
            "many": median(lots for _, lots in runs),
            "queue": median((lots - few) / (many - FEW) for few, lots in runs),
        }
        for name, runs in found.items()
    }


def show(figures: dict[str, dict[str, Any]], many: int) -> None:
    print("resident memory of the main process, MiB; of an idle queue, KiB")
    print(f"{'worker':<8} {f'{FEW} queues':>12} {f'{many:,} queues':>13} {'a queue':>8}")
    for name, f in figures.items():
        print(
            f"{name:<8} {f['few'] / 2**20:>12.1f} {f['many'] / 2**20:>13.1f}"
            f" {f['queue'] / 2**10:>8.1f}"
        )


def main() -> None:
    parser = ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--rounds", type=int, default=5, help="(default: 5)")
    parser.add_argument("--queues", type=int, default=1000, help="the many (default: 1000)")
    args = parser.parse_args()
    progress = Progress(2 * args.rounds)
    with serving(RabbitMQ()) as server:
        figures = measure(server, args.queues, args.rounds, progress)
    progress.close()
    print(json.dumps(figures)) if args.json else show(figures, args.queues)


if __name__ == "__main__":
    main()
