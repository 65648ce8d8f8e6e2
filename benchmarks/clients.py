"""What the client libraries alone allow: consumption without Celery, on RabbitMQ.

    python -m benchmarks.clients [--json] [--rounds N] [--messages M]

The same task messages on ten queues, published before; each consumer (see `consumers.py`) reads the
headers of every one and acknowledges it by itself. In each round each has a process of its own,
one after the other, now this way, now that way. A ratio is to py-amqp, which Celery uses, and the
median of the ratios within the rounds.
"""

import json
import subprocess
import sys
from argparse import ArgumentParser
from statistics import median
from typing import Any

from benchmarks.consumers import CONSUMERS
from benchmarks.progress import Progress
from benchmarks.turns import serving
from tests.brokers import RabbitMQ
from tests.publishing import publish

QUEUES = [f"p{number}" for number in range(10)]
LONGEST = 120
"""Seconds."""


def consume(name: str, url: str, messages: int) -> dict[str, float]:
    """Messages per second, and processor seconds of one."""
    count = len(publish(url, dict.fromkeys(QUEUES, messages // len(QUEUES)), "plain").all())
    command = [sys.executable, "-m", "benchmarks.consumers", name, url, str(count), *QUEUES]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=LONGEST)
    found = json.loads(run.stdout)
    return {"speed": count / found["seconds"], "cpu": found["cpu"] / count}


def measure(
    server: RabbitMQ, messages: int, rounds: int, progress: Progress
) -> list[dict[str, Any]]:
    url = server.space().url
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in CONSUMERS}
    for number in range(rounds):
        for name in CONSUMERS if number % 2 else reversed(CONSUMERS):
            runs[name].append(consume(name, url, messages))
        progress.step("all clients")
    first = runs[next(iter(CONSUMERS))]
    return [
        {
            "client": name,
            "speed": median(run["speed"] for run in found),
            "ratio": median(r["speed"] / f["speed"] for r, f in zip(found, first, strict=True)),
            "cpu": median(run["cpu"] for run in found),
        }
        for name, found in runs.items()
    ]


def show(rows: list[dict[str, Any]]) -> None:
    print("messages per second, of the first; microseconds of CPU per message")
    print(f"{'client':<12} {'speed':>7} {'ratio':>6} {'CPU':>6}")
    for r in rows:
        print(f"{r['client']:<12} {r['speed']:>7.0f} {r['ratio']:>6.2f} {r['cpu'] * 1e6:>6.1f}")


def main() -> None:
    parser = ArgumentParser(prog="python -m benchmarks.clients", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--rounds", type=int, default=5, help="(default: 5)")
    parser.add_argument("--messages", type=int, default=6_000, help="a turn (default: 6,000)")
    args = parser.parse_args()
    progress = Progress(args.rounds)
    with serving(RabbitMQ()) as server:
        rows = measure(server, args.messages, args.rounds, progress)
    progress.close()
    print(json.dumps(rows)) if args.json else show(rows)


if __name__ == "__main__":
    main()
