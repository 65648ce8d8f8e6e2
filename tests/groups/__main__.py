"""Let workers of groups come, go, die and sleep at random, and say how soon others took over.

    python -m tests.groups --seconds 300 --seed 7
    python -m tests.groups --case "redis/pull" --runs 3

Exits with 1 if messages of a key were started twice or out of their order, or if work in one
partition overlapped; what was found is shown with the command that repeats it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import pytest

from tests.brokers import RabbitMQ, RedisServer
from tests.conftest import running
from tests.groups.churn import CASES, Case, Churn
from tests.workers import starting_workers

TROUBLES = 8
"""Of a run."""
MOST = 5
"""Workers at once."""
Took = dict[tuple[str, str], list[float]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.groups", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--seconds", type=float, default=600, help="start no run later (%(default)s)"
    )
    parser.add_argument("--runs", type=int, help="stop after so many")
    parser.add_argument("--seed", type=int, help="of the first run; the next has one more")
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    return parser.parse_args()


class Servers:
    """Those that all runs use."""

    def __init__(self, stack: ExitStack) -> None:
        self.redis, self.rabbitmq = RedisServer(), RabbitMQ()
        for server in (self.redis, self.rabbitmq):
            started = running(server)
            stack.callback(started.close)
            next(started)

    def run(self, case: Case, seed: int, folder: Path) -> Churn:
        broker = self.rabbitmq if case.broker == "rabbitmq" else self.redis
        with starting_workers(folder) as start:
            churn = Churn(case, broker.space(), self.redis.space().url, start, folder)
            for name in troubles(Random(seed)):
                getattr(churn, name)()
            churn.check()
        return churn


def troubles(draw: Random) -> Iterator[str]:
    """Names of what `Churn` can do, for three workers at first."""
    workers = 3
    for _ in range(TROUBLES):
        names = ["freeze"] * (workers > 1) + ["join"] * (workers < MOST)
        names += ["stop", "kill"] * (workers > 1)
        name = draw.choice(names)
        workers += {"join": 1, "freeze": 0}.get(name, -1)
        yield name


def repeat(options: argparse.Namespace) -> tuple[Took, list[str]]:
    chosen = [case for case in CASES if options.case in str(case)]
    if not chosen:
        sys.exit(f"no case contains {options.case!r}; one of them is {CASES[0]}")
    took: Took = defaultdict(list)
    broken = []
    first = time.time_ns() % 1_000_000 if options.seed is None else options.seed
    deadline = time.monotonic() + options.seconds
    with ExitStack() as stack:
        servers = Servers(stack)
        for seed in count(first):
            left = deadline - time.monotonic()
            if left <= 0 or seed - first == options.runs:
                break
            case = chosen[seed % len(chosen)]
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="churn-")))
            begun = time.monotonic()
            try:
                churn = servers.run(case, seed, folder)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is to be repeated
                again = f'python -m tests.groups --case "{options.case}" --seed {seed} --runs 1'
                broken.append(f"{case}: {type(error).__name__}: {error}\n  repeat: {again}")
                outcome = f"BROKEN: {type(error).__name__}"
            else:
                for what, seconds in churn.took.items():
                    took[str(case), what] += seconds
                outcome = str(churn)
            spent = time.monotonic() - begun
            line = f"{left:4.0f} s left  seed {seed}  {spent:5.1f} s  {case}: {outcome}"
            print(line, file=sys.stderr, flush=True)
    return took, broken


def rows(took: Took) -> list[dict[str, Any]]:
    return [
        {"case": case, "what": what, "times": len(seconds)}
        | {"median": median(seconds), "longest": max(seconds)}
        for (case, what), seconds in sorted(took.items())
    ]


def table(found: list[dict[str, Any]]) -> str:
    """Seconds until all partitions were owned again."""
    head = f"{'case':<32} {'what':<12} {'times':>5} {'median':>7} {'longest':>8}"
    lines = (
        f"{row['case']:<32} {row['what']:<12} {row['times']:>5} {row['median']:>7.1f}"
        f" {row['longest']:>8.1f}"
        for row in found
    )
    return "\n".join((head, *lines))


def main() -> int:
    options = arguments()
    try:
        took, broken = repeat(options)
    except pytest.skip.Exception as missing:
        sys.exit(str(missing))
    if options.json:
        print(json.dumps({"rows": rows(took), "broken": broken}, indent=1))
    else:
        print(table(rows(took)))
        print("\n\n".join(broken) or "no law was broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
