"""Let workers run for long, and see whether what they hold grows.

    python -m tests.soak --minutes 30 --seed 7

On RabbitMQ two workers of a group, on Redis one. In each cycle their connections are cut, queues
are cancelled and added, a worker of the group sleeps until the other has its partitions, and tasks
run all along; then connections, channels, descriptors, threads and memory are counted. Exits with 1
if one of these grows, by the rule in `tests/soak/figures.py`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.brokers import RabbitMQ, RedisServer
from tests.conftest import running
from tests.soak.figures import grows, thirds
from tests.soak.posts import OnRabbitMQ, OnRedis, Post
from tests.workers import starting_workers

Series = dict[tuple[str, str], list[float]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.soak", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=30, help="start no cycle later")
    parser.add_argument("--seed", type=int, help="of what happens when")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    return parser.parse_args()


def soak(minutes: float, seed: int) -> Series:
    series: Series = defaultdict(list)
    with ExitStack() as stack:
        rabbitmq, redis = RabbitMQ(), RedisServer()
        for server in (rabbitmq, redis):
            started = running(server)
            stack.callback(started.close)
            next(started)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        start = stack.enter_context(starting_workers(folder))
        posts: list[Post] = [
            OnRabbitMQ(rabbitmq.space(), redis.space(), start, folder, seed),
            OnRedis(redis.space(), start, folder, seed),
        ]
        for post in posts:
            stack.callback(post.close)
        began = time.monotonic()
        while (now := time.monotonic() - began) < 60 * minutes:
            for post in posts:
                post.cycle()
                for who, sample in post.samples().items():
                    for name, figure in sample.items():
                        series[who, name].append(figure)
            last = ", ".join(f"{found[-1]:g}" for found in series.values())
            print(f"{now:5.0f} s: {last}", file=sys.stderr, flush=True)
        for post in posts:
            for worker in post.workers:
                code = worker.stop()
                assert code == 0, f"{worker.hostname} ended with {code}:\n{worker.log()[-3000:]}"
    return series


def table(series: Series) -> str:
    """The least of each third."""
    lines = [f"{'who':<20} {'what':<12} {'first':>7} {'middle':>7} {'last':>7} {'most':>7}"]
    for (who, name), found in series.items():
        parts = " ".join(f"{each:>7g}" for each in (*thirds(found), max(found)))
        lines.append(f"{who:<20} {name:<12} {parts}{'  GROWS' if grows(name, found) else ''}")
    return "\n".join(lines)


def main() -> int:
    options = arguments()
    seed = time.time_ns() % 1_000_000 if options.seed is None else options.seed
    print(f"seed {seed}", file=sys.stderr)
    series = soak(options.minutes, seed)
    growing = [key for key, found in series.items() if grows(key[1], found)]
    if options.json:
        rows = [{"who": who, "what": name, "figures": f} for (who, name), f in series.items()]
        print(json.dumps(rows, indent=1))
    else:
        cycles = len(next(iter(series.values())))
        print(f"{cycles} cycles in {options.minutes:g} minutes; the least of each third:")
        print(table(series))
    for who, name in growing:
        print(f"{who}: {name} grows: {series[who, name]}")
    return 1 if growing else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except pytest.skip.Exception as missing:
        sys.exit(str(missing))
