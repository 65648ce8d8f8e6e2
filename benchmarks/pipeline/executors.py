"""The commands on raw logs: on this machine by itself, and on clusters of one and of two executors.

A cluster's master and workers run on this machine, too, and each executor has one core of it: what
is compared is the work of a cluster, not what a further machine would add.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from benchmarks.pipeline.fleet import write_logs
from benchmarks.pipeline.watched import python, run
from benchmarks.progress import Progress
from tests.apart.standalone import environment, standalone

__all__ = ["COMMANDS", "WAYS", "Timed", "commands_on_logs", "show"]

COMMANDS = ("ingest", "fairness", "audit", "waits", "costs", "report")
WAYS = {"local": 0, "1 executor": 1, "2 executors": 2}


class Timed(NamedTuple):
    """Seconds that a command took, the start of Spark and of Python among them."""

    way: str
    command: str
    seconds: float


def commands_on_logs(lines: int, folder: Path, limit: float, progress: Progress) -> list[Timed]:
    """Run all commands in each way on logs of so many lines."""
    logs = folder / "logs"
    write_logs(logs, lines)
    progress.step(f"{lines} lines")
    return [
        timed
        for way, executors in WAYS.items()
        for timed in _timed(way, executors, logs, folder / way.replace(" ", "-"), limit, progress)
    ]


def _timed(
    way: str, executors: int, logs: Path, folder: Path, limit: float, progress: Progress
) -> Iterator[Timed]:
    warehouse = folder / "warehouse"
    arguments = {"ingest": (logs, warehouse), "report": (warehouse, folder / "report.html")}
    with ExitStack() as stack:
        master: tuple[str, ...] = ()
        if executors:
            cluster = stack.enter_context(standalone(folder / "cluster", executors))
            master = ("--master", cluster.url)
        for command in COMMANDS:
            words = python("celery_fair", "pipeline", command, *master)
            words += map(str, arguments.get(command, (warehouse,)))
            ran = run(words, limit, environment())
            progress.step(f"{way}: {command}")
            yield Timed(way, command, ran.seconds)


def show(times: list[Timed]) -> None:
    """Print a line for each command, and how the ways compare."""
    by = {(timed.way, timed.command): timed.seconds for timed in times}
    heads = "".join(f"{way:>13}" for way in WAYS)
    print(f"\n{'seconds':<10}{heads}{'2 / local':>11}{'2 / 1':>8}")
    for command in (*COMMANDS, "all"):
        names = COMMANDS if command == "all" else (command,)
        sums = {way: sum(by[way, name] for name in names) for way in WAYS}
        local, one, two = sums.values()
        cells = "".join(f"{seconds:>13.1f}" for seconds in sums.values())
        print(f"{command:<10}{cells}{two / local:>11.2f}{two / one:>8.2f}")
    sys.stdout.flush()
