"""What it costs that a task starts at most once, and how soon a pulled message starts.

    python -m benchmarks.once [--json] [--rounds N] [--seconds S] [--messages M] [BROKER:POOL ...]

The same work on the same fair worker: as a repeatable task, acknowledged early (plain), and as a
non-repeatable one in each of its ways. As in `throughput`, all contestants of a pool live at the
same time and run in turns, and a ratio is the median of the ratios within the rounds.

Then single messages to one idle worker, on a queue that is pushed and on one that is pulled: from
before they are published, on a connection that is open, to the task's first line. Before each the
worker has rested long enough to ask a pulled queue as seldom as it ever does.
"""

import json
from contextlib import ExitStack
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic_ns, sleep
from typing import Any

from benchmarks.contestant import contestant
from benchmarks.progress import Progress
from benchmarks.turns import arguments, pairs, row, show_speeds, take_turns
from tests.brokers import RabbitMQ, RedisServer
from tests.brokers.space import Server
from tests.workers import starting_workers

QUEUES = {"a": 1, "b": 1}
APP = "tests.apps.once"
BROKERS = {"rabbitmq": RabbitMQ, "redis": RedisServer}
POOLS = {"solo": 1, "prefork": 2}
PULL = {"fair_queues": {name: {"fetch": "pull"} for name in QUEUES}}
WARM_UP = 300
TARGET = 0.95
"""Of a task that starts at most once, acknowledged before, to a repeatable one."""
REST = 0.2, 0.3
"""Seconds before each single message: by then the longest interval is reached (0.05 s)."""


def ways(redis: str, folder: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """By name: the task, and the settings."""
    return {
        "plain": ("plain", {}),
        "before": ("before", {}),
        "before, in 32s": ("before", {"fair_ack_batch": 32}),
        "confirm": ("confirmed", {}),
        "after": ("after", {}),
        "pull": ("before", PULL),
        "ledger, Redis": ("before", {"fair_ledger": redis}),
        "ledger, SQLite": ("before", {"fair_ledger": f"sqlite:///{folder}/ledger.db"}),
    }


def measure(
    server: Server, pool: str, rounds: int, seconds: float, redis: RedisServer, progress: Progress
) -> list[dict[str, Any]]:
    """Run the ways of one pool in turns."""
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        everybody = [
            stack.enter_context(
                contestant(
                    name,
                    server,
                    QUEUES,
                    task,
                    pool=pool,
                    concurrency=POOLS[pool],
                    conf=conf,
                )
            )
            for name, (task, conf) in ways(redis.space().url, folder).items()
        ]
        take_turns(everybody, rounds, seconds, WARM_UP, progress, f"{server.kind} {pool}")
    return [row(server.kind, f"{pool} {POOLS[pool]}", each, everybody[0]) for each in everybody]


def latencies(server: Server, fetch: str, messages: int) -> dict[str, Any]:
    """Milliseconds from before the publishing to the start, on an idle worker."""
    conf = {"fair_queues": {"a": {"fetch": fetch}}}
    rests = Random(1)
    with TemporaryDirectory() as folder, starting_workers(Path(folder)) as start:
        worker = start(server.space(), app=APP, queues=["a"], conf=conf)
        send = worker.client.send_task
        worker.records.started.wait_ids([send("before", (0,), queue="a").id])  # which connects
        found = []
        for number in range(messages):
            sleep(rests.uniform(*REST))
            began = monotonic_ns()
            sent = send("before", (number,), queue="a")
            (record,) = worker.records.started.wait_once([sent.id])
            found.append((record.monotonic_ns - began) / 1e6)
    found.sort()
    return {
        "broker": server.kind,
        "fetch": fetch,
        "median": median(found),
        "p95": found[int(0.95 * len(found))],
        "longest": found[-1],
    }


def show(rows: list[dict[str, Any]], waits: list[dict[str, Any]]) -> None:
    show_speeds(rows)
    for r in rows:
        if r["way"] == "before":
            verdict = "within" if r["ratio"] >= TARGET else "beyond"
            print(
                f"{r['broker']} {r['pool']}, non-repeatable against repeatable {r['ratio']:.2f}:"
                f" {verdict} the target of {TARGET}"
            )
    print("milliseconds until a message to an idle worker starts")
    print(f"{'broker':<9} {'fetch':<6} {'median':>7} {'95 %':>7} {'longest':>8}")
    for w in waits:
        print(
            f"{w['broker']:<9} {w['fetch']:<6} {w['median']:>7.1f} {w['p95']:>7.1f}"
            f" {w['longest']:>8.1f}"
        )


def main() -> None:
    every = pairs(BROKERS, POOLS)
    parser = arguments("benchmarks.once", __doc__, every, pairs(BROKERS, ["solo"]))
    parser.add_argument("--messages", type=int, default=50, help="to an idle worker (default: 50)")
    args = parser.parse_args()
    what = [each.split(":") for each in args.what]
    kinds = list(dict.fromkeys(kind for kind, _ in what))
    progress = Progress(len(what) * args.rounds + 2 * len(kinds))
    rows, waits = [], []
    with ExitStack() as stack:

        def started(make: Any) -> Any:
            server = make()
            stack.callback(server.end)
            server.start()
            server.wait_ready()
            return server

        redis = started(RedisServer)
        for kind in kinds:
            server = started(BROKERS[kind])
            for pool in (pool for broker, pool in what if broker == kind):
                rows += measure(server, pool, args.rounds, args.seconds, redis, progress)
            for fetch in ("push", "pull"):
                waits.append(latencies(server, fetch, args.messages))
                progress.step(f"{kind} {fetch}")
    progress.close()
    print(json.dumps({"speeds": rows, "waits": waits})) if args.json else show(rows, waits)


if __name__ == "__main__":
    main()
