"""Tasks per second, and main-process CPU per task: vanilla Celery against a fair worker.

    python -m benchmarks.throughput [--json] [--rounds N] [--seconds S] [BROKER:POOL ...]

Ten queues, tasks that record their start and do nothing else, the same pool. Vanilla Celery takes
part with several prefetch multipliers; its best one counts. All contestants of a pool live at the
same time and run in turns (see `contestant.py`); a ratio is the median of the ratios within the
rounds of such turns.
"""

import json
from contextlib import ExitStack
from statistics import median
from typing import Any

from benchmarks.contestant import Contestant, contestant
from benchmarks.progress import Progress
from benchmarks.turns import arguments, pairs, take_turns
from tests.brokers import RabbitMQ, RedisServer
from tests.brokers.space import Server

QUANTA = {f"p{number}": 4 * (number + 1) for number in range(10)}
FAIR = {"fair_queues": {name: {"quantum": quantum} for name, quantum in QUANTA.items()}}
BROKERS = {"rabbitmq": RabbitMQ, "redis": RedisServer}
POOLS = {"solo": 1, "threads": 8, "prefork": 2}
MULTIPLIERS = (4, 32, 256)
WARM_UP = 500


def contestants(stack: ExitStack, server: Server, pool: str) -> list[Contestant]:
    """The fair worker, then vanilla ones."""
    options: dict[str, Any] = {"pool": pool, "concurrency": POOLS[pool]}
    even = dict.fromkeys(QUANTA, 1)
    made = [contestant("fair", server, QUANTA, conf=FAIR, **options)]
    for multiplier in MULTIPLIERS:
        conf = {"worker_prefetch_multiplier": multiplier}
        made.append(contestant(str(multiplier), server, even, fair=False, conf=conf, **options))
    return [stack.enter_context(each) for each in made]


def measure(
    server: Server, pool: str, rounds: int, seconds: float, progress: Progress
) -> dict[str, Any]:
    """Run the contestants of one pool in turns."""
    with ExitStack() as stack:
        fair, *vanilla = everybody = contestants(stack, server, pool)
        take_turns(everybody, rounds, seconds, WARM_UP, progress, f"{server.kind} {pool}")
    best = max(vanilla, key=lambda each: median(run.speed for run in each.runs))
    return row(server.kind, pool, fair, best)


def row(broker: str, pool: str, fair: Contestant, vanilla: Contestant) -> dict[str, Any]:
    pairs = list(zip(fair.runs, vanilla.runs, strict=True))
    return {
        "broker": broker,
        "pool": f"{pool} {POOLS[pool]}",
        "multiplier": int(vanilla.name),
        "vanilla_speed": median(run.speed for run in vanilla.runs),
        "fair_speed": median(run.speed for run in fair.runs),
        "speed_ratio": median(ours.speed / theirs.speed for ours, theirs in pairs),
        "vanilla_cpu": median(run.cost for run in vanilla.runs),
        "fair_cpu": median(run.cost for run in fair.runs),
        "cpu_ratio": median(ours.cost / theirs.cost for ours, theirs in pairs),
    }


def show(rows: list[dict[str, Any]]) -> None:
    print("tasks per second, and microseconds of the main process's CPU per task")
    print(
        f"{'broker':<9} {'pool':<10} {'multiplier':>10} {'vanilla':>8} {'fair':>8} {'ratio':>6}"
        f" {'CPU vanilla':>12} {'CPU fair':>9} {'ratio':>6}"
    )
    for r in rows:
        print(
            f"{r['broker']:<9} {r['pool']:<10} {r['multiplier']:>10} {r['vanilla_speed']:>8.0f}"
            f" {r['fair_speed']:>8.0f} {r['speed_ratio']:>6.2f} {r['vanilla_cpu'] * 1e6:>12.0f}"
            f" {r['fair_cpu'] * 1e6:>9.0f} {r['cpu_ratio']:>6.2f}"
        )


def main() -> None:
    every = pairs(BROKERS, POOLS)
    parser = arguments("benchmarks.throughput", __doc__, every)
    args = parser.parse_args()
    what = [each.split(":") for each in args.what or every]
    progress = Progress(len(what) * args.rounds)
    rows = []
    for broker, make in BROKERS.items():
        pools = [pool for kind, pool in what if kind == broker]
        if pools:
            server = make()
            try:
                server.start()
                server.wait_ready()
                rows += [measure(server, p, args.rounds, args.seconds, progress) for p in pools]
            finally:
                server.end()
    progress.close()
    print(json.dumps(rows)) if args.json else show(rows)


if __name__ == "__main__":
    main()
