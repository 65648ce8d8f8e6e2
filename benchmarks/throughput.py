"""Tasks per second, and CPU per task, as people run it: vanilla Celery against a fair worker.

    python -m benchmarks.throughput [--json] [--rounds N] [--seconds S] [--as NAME] [PAIR ...]

Ten queues, tasks that count and do nothing else, the same pool. Vanilla Celery takes part with
several prefetch multipliers; its best one counts. All contestants of a row live at the same time
and run in turns (see `contestant.py`); a ratio is to vanilla, and the median of the ratios within
the rounds of such turns. CPU is that of all processes of a worker.

How the workers are started, by name:

default         celery -A app worker
info            the same with -l INFO, as all below but the last three
events          with -E, and nobody who listens
results         results are kept in Redis
sentry          with Sentry's SDK as in its quick start, on a transport that sends nothing
opentelemetry   with OpenTelemetry's instrumentation, and an exporter that drops all
log             the fair worker writes an event log
both            both of these
1 ms … 30 ms    tasks that wait so long
once            non-repeatable tasks, acknowledged before they start, against vanilla's early
                acknowledgement
plain           `default` again, without the fast path
laboratory      -l WARNING, without gossip, mingle and heartbeats, which nobody types
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from benchmarks.contestant import Contestant, contestant
from benchmarks.progress import Progress
from benchmarks.turns import arguments, pairs, serving, take_turns
from tests.brokers import RabbitMQ, RedisServer
from tests.brokers.space import Server

KEPT = Path(__file__).with_suffix(".jsonl")
QUANTA = {f"p{number}": 4 * (number + 1) for number in range(10)}
FAIR = {"fair_queues": {name: {"quantum": quantum} for name, quantum in QUANTA.items()}}
BROKERS: dict[str, type[Server]] = {"rabbitmq": RabbitMQ, "redis": RedisServer}
POOLS = {"solo": 1, "threads": 8, "prefork": 2}
GREEN = {"gevent": 100, "eventlet": 100}
WIDE = {"prefork-8": 8}
SLOTS = POOLS | GREEN | WIDE
PLAIN = FAIR | {"fair_fast_path": False}
MULTIPLIERS = (4, 32, 256)
WARM_UP = 500
DEFAULT = {"quiet": False}
INFO = {"quiet": False, "loglevel": "INFO"}
AFRESH = INFO | {"afresh": True}
"""Without anything of Celery's imported before the app, which may replace it."""


class Configuration(NamedTuple):
    """How workers are started, and what they are given to do."""

    options: Mapping[str, Any] = INFO
    task: str = "plain"
    fair_task: str | None = None
    """Of the fair worker, if it is another."""
    fair: Mapping[str, Any] = {}
    """Settings that only the fair worker has."""
    keeps_results: bool = False
    writes_a_log: bool = False


CONFIGURATIONS = {
    "default": Configuration(DEFAULT),
    "info": Configuration(),
    "events": Configuration(INFO | {"args": ["-E"]}),
    "results": Configuration(task="kept", keeps_results=True),
    "both": Configuration(INFO | {"args": ["-E"]}, task="kept", keeps_results=True),
    "sentry": Configuration(AFRESH | {"app": "benchmarks.reporting"}),
    "opentelemetry": Configuration(AFRESH | {"app": "benchmarks.tracing"}),
    "log": Configuration(writes_a_log=True),
    **{each: Configuration(task=each) for each in ("1 ms", "3 ms", "10 ms", "30 ms")},
    "once": Configuration(DEFAULT, fair_task="before"),
    "plain": Configuration(DEFAULT, fair={"fair_fast_path": False}),
    "laboratory": Configuration({}),
}


def contestants(
    stack: ExitStack, server: Server, pool: str, how: Configuration, redis: RedisServer
) -> list[Contestant]:
    """The fair worker, then vanilla ones."""
    options = {"pool": _kind(pool), "concurrency": SLOTS[pool], **how.options}
    even = dict.fromkeys(QUANTA, 1)
    fair = FAIR | dict(how.fair)
    if how.writes_a_log:
        fair["fair_event_log"] = stack.enter_context(TemporaryDirectory())
    kept = {"result_backend": redis.space().url} if how.keeps_results else {}
    made = [
        contestant("fair", server, QUANTA, how.fair_task or how.task, conf=fair | kept, **options)
    ]
    for multiplier in MULTIPLIERS:
        conf = {"worker_prefetch_multiplier": multiplier} | kept
        made.append(
            contestant(str(multiplier), server, even, how.task, fair=False, conf=conf, **options)
        )
    return [stack.enter_context(each) for each in made]


def measure(
    server: Server,
    pool: str,
    name: str,
    redis: RedisServer,
    rounds: int,
    seconds: float,
    progress: Progress,
) -> dict[str, Any]:
    """Run the contestants of one row in turns."""
    with ExitStack() as stack:
        everybody = contestants(stack, server, pool, CONFIGURATIONS[name], redis)
        label = f"{server.kind} {pool} {name}"
        take_turns(everybody, rounds, seconds, WARM_UP, progress, label)
    fair, *vanilla = everybody
    best = max(vanilla, key=lambda each: median(run.speed for run in each.runs))
    return {"as": name} | row(server.kind, pool, fair, best)


def row(broker: str, pool: str, fair: Contestant, vanilla: Contestant) -> dict[str, Any]:
    """Return the medians, and those of the ratios within the rounds."""
    turns = list(zip(fair.runs, vanilla.runs, strict=True))
    ratios = sorted(ours.speed / theirs.speed for ours, theirs in turns)
    return {
        "broker": broker,
        "pool": f"{_kind(pool)} {SLOTS[pool]}",
        "multiplier": int(vanilla.name),
        "vanilla_speed": median(run.speed for run in vanilla.runs),
        "fair_speed": median(run.speed for run in fair.runs),
        "ratio": median(ratios),
        "least": ratios[0],
        "most": ratios[-1],
        "vanilla_cpu": median(run.cost for run in vanilla.runs),
        "fair_cpu": median(run.cost for run in fair.runs),
    }


def _kind(pool: str) -> str:
    return pool.partition("-")[0]


HEADINGS = (
    *("as", "broker", "pool", "multiplier", "vanilla, tasks/s", "fair, tasks/s", "ratio"),
    *("from", "to", "CPU vanilla, µs", "CPU fair, µs"),
)


def cells(rows: list[dict[str, Any]]) -> Iterator[list[str]]:
    """Yield the table, headings first."""
    yield list(HEADINGS)
    for r in rows:
        yield [
            *(r["as"], _named(r["broker"]), r["pool"]),
            *(str(r["multiplier"]), f"{r['vanilla_speed']:.0f}", f"{r['fair_speed']:.0f}"),
            *(f"{r[name]:.2f}" for name in ("ratio", "least", "most")),
            *(f"{r[name] * 1e6:.0f}" for name in ("vanilla_cpu", "fair_cpu")),
        ]


def kept() -> list[dict[str, Any]]:
    """The figures of the run that the documentation shows."""
    return [json.loads(line) for line in KEPT.read_text().splitlines()]


def ratios(rows: list[dict[str, Any]]) -> Iterator[list[str]]:
    """Yield the ratios alone, a line for each way to start the workers; headings first."""
    places = list(dict.fromkeys((r["broker"], r["pool"]) for r in rows))
    found = {(r["as"], r["broker"], r["pool"]): f"{r['ratio']:.2f}" for r in rows}
    yield ["as", *(f"{_named(broker)}, {pool}" for broker, pool in places)]
    for way in dict.fromkeys(r["as"] for r in rows):
        yield [way, *(found.get((way, *place), "") for place in places)]


def _named(broker: str) -> str:
    return BROKERS[broker].__name__.removesuffix("Server")


def show(rows: list[dict[str, Any]]) -> None:
    table = list(cells(rows))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def main() -> None:
    every, usual = pairs(BROKERS, SLOTS), pairs(BROKERS, POOLS)
    parser = arguments("benchmarks.throughput", __doc__, every, usual, rounds=3)
    parser.add_argument(
        "--as",
        dest="ways",
        action="append",
        choices=CONFIGURATIONS,
        metavar="NAME",
        help="how the workers are started; may be repeated (default: all)",
    )
    args = parser.parse_args()
    what = [each.split(":") for each in args.what]
    ways = args.ways or list(CONFIGURATIONS)
    progress = Progress(len(what) * len(ways) * args.rounds)
    rows: list[dict[str, Any]] = []
    with serving(RedisServer()) as redis:
        for broker, make in BROKERS.items():
            pools = [pool for kind, pool in what if kind == broker]
            if pools:
                with serving(make()) as server:
                    for way, pool in product(ways, pools):
                        rows.append(
                            measure(server, pool, way, redis, args.rounds, args.seconds, progress)
                        )
                        if args.json:
                            print(json.dumps(rows[-1]), flush=True)
    progress.close()
    if not args.json:
        show(rows)


if __name__ == "__main__":
    main()
