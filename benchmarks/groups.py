"""How soon the workers of a group have their partitions, and what they ask of its store.

    python -m benchmarks.groups [--json] [--partitions N] [simulated] [real]

*Simulated*: groups of 10, 30 and 100 members with the default times, in virtual time (see
`group_model.py`); medians of three runs. Everybody starts at once, nothing happens, one joins, one
leaves warmly, one is killed: from then until each partition is consumed by the member that is
planned for it. *Real*: 3, 6 and 12 workers of threads on RabbitMQ, with a store in Redis, and a
lease of 4 s. What Redis does is counted by itself, in scripts.
"""

import json
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Event
from time import monotonic
from typing import Any

from benchmarks.group_model import Model
from benchmarks.progress import Progress
from celery_fair.core.groups.membership import Terms
from tests.brokers import RabbitMQ, RedisServer
from tests.brokers.space import Server
from tests.groups.fleet import Fleet
from tests.workers import WorkerProcess, starting_workers

MEMBERS = (10, 30, 100)
SEEDS = (1, 2, 3)
WORKERS = (3, 6, 12)
CALM = 10.0
"""Seconds in which nothing happens."""
KINDS = ("simulated", "real")
COUNTS = ("reads", "writes", "refused")

Row = dict[str, Any]


def simulated(members: int, each: int, progress: Progress) -> list[Row]:
    """The medians of some runs, by event."""
    runs = []
    for seed in SEEDS:
        runs.append(run(members, each, seed))
        progress.step(f"simulated {members}")
    return [
        {"members": members, "event": event}
        | {name: median(found[event][name] for found in runs) for name in runs[0][event]}
        for event in runs[0]
    ]


def run(members: int, each: int, seed: int) -> dict[str, Row]:
    """By event: seconds, and the store's operations in each."""
    model = Model(members * each, Terms(), seed)

    def all_start() -> None:
        for _ in range(members):
            model.join()

    found = {"all start": settling(model, all_start)}
    calm = model.now + CALM
    found["nothing"] = passing(model, lambda: model.now >= calm)
    found["one joins"] = settling(model, model.join)
    found["one leaves"] = settling(model, model.leave)
    found["one is killed"] = settling(model, model.kill)
    return found


def settling(model: Model, event: Callable[[], None]) -> Row:
    event()
    return passing(model, lambda: model.is_settled)


def passing(model: Model, is_over: Callable[[], bool]) -> Row:
    began, before = model.now, [getattr(model, name) for name in COUNTS]
    while not is_over():
        model.step()
    seconds = model.now - began
    rates = (
        (getattr(model, name) - count) / seconds for name, count in zip(COUNTS, before, strict=True)
    )
    return {"seconds": seconds} | dict(zip(COUNTS, rates, strict=True))


def real(workers: int, each: int, broker: Server, store: RedisServer, progress: Progress) -> Row:
    """Seconds until partitions are owned, and scripts."""
    partitions = workers * each
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        start = stack.enter_context(starting_workers(folder))
        fleet = Fleet(broker.space(), start, folder, store.space().url, partitions)
        everybody = [fleet.worker() for _ in range(workers - 1)]
        settle(fleet, everybody, partitions)
        progress.step(f"{workers - 1} workers")

        everybody.append(fleet.worker())
        began = monotonic()
        joined = settle(fleet, everybody, partitions) - began

        asked, began = scripts(store), monotonic()
        Event().wait(CALM)
        rate = (scripts(store) - asked) / (monotonic() - began) / workers
        progress.step(f"{workers} workers")

        everybody.pop(0).stop()
        began = monotonic()
        stopped = settle(fleet, everybody, partitions) - began

        began = monotonic()
        everybody.pop(0).kill()
        killed = settle(fleet, everybody, partitions) - began
        progress.step(f"{workers - 2} workers")
    return {
        "workers": workers,
        "joined": joined,
        "stopped": max(0.0, stopped),
        "killed": killed,
        "scripts": rate,
    }


def settle(fleet: Fleet, workers: list[WorkerProcess], partitions: int) -> float:
    """Wait until all is owned, evenly; return when the last partition was."""
    least, more = divmod(partitions, len(workers))
    counts = [least] * (len(workers) - more) + [least + 1] * more
    fleet.wait_counts(counts, *workers)
    return max(float(e["at"]) for e in fleet.events if e["kind"] == "assigned")


def scripts(store: RedisServer) -> int:
    """How many Redis has run."""
    return int(store.client.info("commandstats")["cmdstat_evalsha"]["calls"])


def show(in_model: list[Row], in_fact: list[Row]) -> None:
    if in_model:
        print("simulated: seconds until all is consumed; operations per second of the whole group")
        print(
            f"{'members':>7} {'event':<14} {'seconds':>8} {'reads':>7} {'writes':>7} {'refused':>8}"
        )
    for r in in_model:
        print(
            f"{r['members']:>7} {r['event']:<14} {r['seconds']:>8.2f} {r['reads']:>7.1f}"
            f" {r['writes']:>7.1f} {r['refused']:>8.1f}"
        )
    if in_fact:
        print("real: seconds until its part is owned; scripts per second and worker")
        print(f"{'workers':>7} {'joined':>7} {'stopped':>8} {'killed':>7} {'scripts':>8}")
    for r in in_fact:
        print(
            f"{r['workers']:>7} {r['joined']:>7.1f} {r['stopped']:>8.1f} {r['killed']:>7.1f}"
            f" {r['scripts']:>8.1f}"
        )


def main() -> None:
    parser = ArgumentParser(prog="python -m benchmarks.groups", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--partitions", type=int, default=4, help="a member (default: 4)")
    parser.add_argument("what", nargs="*", metavar="KIND", help="simulated or real")
    args = parser.parse_args()
    kinds = args.what or KINDS
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"{' '.join(unknown)}: choose of {' and '.join(KINDS)}")
    sizes = MEMBERS if "simulated" in kinds else ()
    fleets = WORKERS if "real" in kinds else ()
    progress = Progress(len(sizes) * len(SEEDS) + 3 * len(fleets))
    in_model = [row for size in sizes for row in simulated(size, args.partitions, progress)]
    with ExitStack() as stack:
        servers: list[Any] = [RabbitMQ(), RedisServer()] if fleets else []
        for server in servers:
            stack.callback(server.end)
            server.start()
            server.wait_ready()
        in_fact = [real(size, args.partitions, *servers, progress) for size in fleets]
    progress.close()
    if args.json:
        print(json.dumps({"simulated": in_model, "real": in_fact}))
    else:
        show(in_model, in_fact)


if __name__ == "__main__":
    main()
