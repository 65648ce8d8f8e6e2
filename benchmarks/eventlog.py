"""What the event log costs: a message's two records, and a worker that writes them.

    python -m benchmarks.eventlog [--json] [--rounds N] [--seconds S] [BROKER:POOL ...]

First the records alone, as the recorder makes them, in processor time of a process that does
nothing else (median of 21 runs), on a disk and in memory. Target: at most 5 µs a message.

Then the same work on two fair workers, one of which writes the log. As in `throughput` they live at
the same time and run in turns, and a ratio is the median of the ratios within the rounds.
"""

import json
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, gettempdir
from time import process_time
from typing import Any

from benchmarks.contestant import contestant
from benchmarks.once import BROKERS, POOLS
from benchmarks.progress import Progress
from benchmarks.turns import arguments, pairs, row, show_speeds, take_turns
from celery_fair.eventlog import EventLog, Policy
from celery_fair.worker.observe.records import about, finished, started
from tests.brokers.space import Server

QUEUES = {"a": 1, "b": 1}
PLACES = {"on a disk": gettempdir(), "in memory": "/dev/shm"}
MESSAGES = 10_000
RUNS = 21
WARM_UP = 300


def microseconds(folder: str) -> float:
    """Of one message: `started` and `finished`."""
    ids = [f"{number:08d}-1b23-4c5d-8e9f-0123456789ab" for number in range(MESSAGES)]
    note = ("interactive", 1_790_000_000_123_456, False, None, 1.0)
    found = []
    with TemporaryDirectory(dir=folder) as place:
        for run in range(RUNS):
            log = EventLog(Policy(Path(place) / f"{run}", rotate=3600), "celery@host")
            log.write("process", '"state":"boot"')
            began = process_time()
            for id_ in ids:
                attempt = about("shop.charge", id_, 0, note)
                log.write("started", started(attempt, note, None, True, None))
                log.write("finished", finished(attempt, "SUCCESS", 10_000, None))
            found.append((process_time() - began) / MESSAGES * 1e6)
            log.close()
    return median(found)


def measure(
    server: Server, pool: str, rounds: int, seconds: float, progress: Progress
) -> list[dict[str, Any]]:
    """Run a worker without and one with the log in turns."""
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        options = {"pool": pool, "concurrency": POOLS[pool]}
        everybody = [
            stack.enter_context(contestant(name, server, QUEUES, conf=conf, **options))
            for name, conf in {"no log": {}, "event log": {"fair_event_log": folder}}.items()
        ]
        take_turns(everybody, rounds, seconds, WARM_UP, progress, f"{server.kind} {pool}")
    return [row(server.kind, f"{pool} {POOLS[pool]}", each, everybody[0]) for each in everybody]


def show(costs: dict[str, float], rows: list[dict[str, Any]]) -> None:
    print("microseconds of CPU, two records")
    for name, cost in costs.items():
        print(f"{name:<12} {cost:>6.2f}")
    show_speeds(rows)


def main() -> None:
    every = pairs(BROKERS, POOLS)
    args = arguments("benchmarks.eventlog", __doc__, every, pairs(BROKERS, ["solo"])).parse_args()
    what = [each.split(":") for each in args.what]
    progress = Progress(len(what) * args.rounds + 2)
    costs = {}
    for name, folder in PLACES.items():
        costs[name] = microseconds(folder)
        progress.step(name)
    rows = []
    for kind in dict.fromkeys(kind for kind, _ in what):
        server = BROKERS[kind]()
        try:
            server.start()
            server.wait_ready()
            for pool in (pool for broker, pool in what if broker == kind):
                rows += measure(server, pool, args.rounds, args.seconds, progress)
        finally:
            server.end()
    progress.close()
    print(json.dumps({"records": costs, "speeds": rows})) if args.json else show(costs, rows)


if __name__ == "__main__":
    main()
