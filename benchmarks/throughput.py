"""Tasks per second, and main-process CPU per task: vanilla Celery against a fair worker.

    python -m benchmarks.throughput [--json] [--rounds N] [--seconds S] [--as NAME] [PAIR ...]

The workers run as by `celery -A app worker` (`default`), with `-l INFO` (`info`), with `-l INFO -E`
(`events`), or without gossip, mingle and heartbeats (`laboratory`), which nobody types. Ten queues,
tasks that record their start and do nothing else, the same pool. Vanilla Celery takes part with
several prefetch multipliers; its best one counts. The fair worker takes part twice, the second time
with its fast path switched off ("plain way"). All contestants of a pool live at the same time and
run in turns (see `contestant.py`); a ratio is to vanilla, and the median of the ratios within the
rounds of such turns.
"""

import json
from contextlib import ExitStack
from statistics import median
from typing import Any

from benchmarks.contestant import Contestant, contestant
from benchmarks.progress import Progress
from benchmarks.turns import arguments, pairs, serving, take_turns
from tests.brokers import RabbitMQ, RedisServer
from tests.brokers.space import Server

QUANTA = {f"p{number}": 4 * (number + 1) for number in range(10)}
FAIR = {"fair_queues": {name: {"quantum": quantum} for name, quantum in QUANTA.items()}}
BROKERS: dict[str, type[Server]] = {"rabbitmq": RabbitMQ, "redis": RedisServer}
POOLS = {"solo": 1, "threads": 8, "prefork": 2}
PLAIN = FAIR | {"fair_fast_path": False}
MULTIPLIERS = (4, 32, 256)
WARM_UP = 500
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "default": {"quiet": False},
    "info": {"quiet": False, "loglevel": "INFO"},
    "events": {"quiet": False, "loglevel": "INFO", "args": ["-E"]},
    "laboratory": {},
}


def contestants(
    stack: ExitStack, server: Server, pool: str, configuration: str
) -> list[Contestant]:
    """The fair worker, the same without its fast path, then vanilla ones."""
    options = {"pool": pool, "concurrency": POOLS[pool], **CONFIGURATIONS[configuration]}
    even = dict.fromkeys(QUANTA, 1)
    made = [
        contestant(name, server, QUANTA, conf=conf, **options)
        for name, conf in {"fair": FAIR, "plain way": PLAIN}.items()
    ]
    for multiplier in MULTIPLIERS:
        conf = {"worker_prefetch_multiplier": multiplier}
        made.append(contestant(str(multiplier), server, even, fair=False, conf=conf, **options))
    return [stack.enter_context(each) for each in made]


def measure(
    server: Server,
    pool: str,
    configuration: str,
    rounds: int,
    seconds: float,
    progress: Progress,
) -> dict[str, Any]:
    """Run the contestants of one pool in turns."""
    label = f"{server.kind} {pool} {configuration}"
    with ExitStack() as stack:
        fair, plain, *vanilla = everybody = contestants(stack, server, pool, configuration)
        take_turns(everybody, rounds, seconds, WARM_UP, progress, label)
    best = max(vanilla, key=lambda each: median(run.speed for run in each.runs))
    return {"as": configuration} | row(server.kind, pool, fair, plain, best)


def row(
    broker: str, pool: str, fair: Contestant, plain: Contestant, vanilla: Contestant
) -> dict[str, Any]:
    ways = {"vanilla": vanilla, "fair": fair, "plain": plain}
    found: dict[str, Any] = {
        "broker": broker,
        "pool": f"{pool} {POOLS[pool]}",
        "multiplier": int(vanilla.name),
    }
    for name, way in ways.items():
        pairs = list(zip(way.runs, vanilla.runs, strict=True))
        found |= {
            f"{name}_speed": median(run.speed for run in way.runs),
            f"{name}_cpu": median(run.cost for run in way.runs),
            f"{name}_speed_ratio": median(ours.speed / theirs.speed for ours, theirs in pairs),
            f"{name}_cpu_ratio": median(ours.cost / theirs.cost for ours, theirs in pairs),
        }
    return found


def show(rows: list[dict[str, Any]]) -> None:
    print("tasks per second, and microseconds of the main process's CPU per task")
    print(
        f"{'as':<10} {'broker':<9} {'pool':<10} {'multiplier':>10} {'vanilla':>8} {'fair':>8}"
        f" {'ratio':>6}"
        f" {'plain way':>10} {'ratio':>6} {'CPU vanilla':>12} {'fair':>6} {'ratio':>6}"
        f" {'plain way':>10} {'ratio':>6}"
    )
    for r in rows:
        print(
            f"{r['as']:<10} {r['broker']:<9} {r['pool']:<10} {r['multiplier']:>10}"
            f" {r['vanilla_speed']:>8.0f}"
            f" {r['fair_speed']:>8.0f} {r['fair_speed_ratio']:>6.2f}"
            f" {r['plain_speed']:>10.0f} {r['plain_speed_ratio']:>6.2f}"
            f" {r['vanilla_cpu'] * 1e6:>12.0f}"
            f" {r['fair_cpu'] * 1e6:>6.0f} {r['fair_cpu_ratio']:>6.2f}"
            f" {r['plain_cpu'] * 1e6:>10.0f} {r['plain_cpu_ratio']:>6.2f}"
        )


def main() -> None:
    every = pairs(BROKERS, POOLS)
    usual = [each for each in every if each != "redis:prefork"]  # which takes long
    parser = arguments("benchmarks.throughput", __doc__, every, usual)
    parser.add_argument(
        "--as",
        dest="ways",
        action="append",
        choices=CONFIGURATIONS,
        metavar="NAME",
        help=f"one of {', '.join(CONFIGURATIONS)}; may be repeated (default: default, info)",
    )
    args = parser.parse_args()
    what = [each.split(":") for each in args.what]
    ways = args.ways or ["default", "info"]
    progress = Progress(len(what) * len(ways) * args.rounds)
    rows = []
    for broker, make in BROKERS.items():
        pools = [pool for kind, pool in what if kind == broker]
        if pools:
            with serving(make()) as server:
                rows += [
                    measure(server, pool, way, args.rounds, args.seconds, progress)
                    for way in ways
                    for pool in pools
                ]
    progress.close()
    print(json.dumps(rows)) if args.json else show(rows)


if __name__ == "__main__":
    main()
