"""The pipeline's tables: Spark on one machine and on clusters, beside DuckDB on the same files.

    python -m benchmarks.pipeline [--json] [--events N] [--executors N ...] [--memory SIZE]

A fleet's log of so many events is made up, and its silver tables by Spark; then each gold table by
DuckDB from these silver files, as the tests' oracle reckons, and by Spark, as the commands do: on
this machine by itself, and on standalone clusters of so many executors, which have a core of it
each. Printed are seconds without the start of the engine, the most memory that all its processes
had at once, those of a cluster among them, and how many rows of Spark's are not DuckDB's: none
should be.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.pipeline.agreement import compared
from benchmarks.pipeline.fleet import write_events
from benchmarks.pipeline.jobs import GOLD
from benchmarks.pipeline.watched import Ran, python, run
from benchmarks.progress import Progress
from tests.apart.standalone import environment, standalone

EVENTS = 1_000_000
EXECUTORS = (1, 2)
LOCAL = "local"
DUCKDB = "DuckDB"
COLUMN = 12


class Bench:
    """One run of it, in a folder that is empty."""

    def __init__(self, folder: Path, args: argparse.Namespace, progress: Progress) -> None:
        self._folder, self._args, self._progress = folder, args, progress
        self._warehouse, self._answers = folder / "warehouse", folder / "answers"
        self._rows = [Row("silver"), *map(Row, GOLD)]

    def run(self) -> "list[Row]":
        """Make each table in each way."""
        events = self._folder / "events"
        self._answers.mkdir()
        write_events(events, self._args.events)
        self._progress.step(f"{self._args.events} events")
        silver, *gold = self._rows
        silver.add(LOCAL, self._job("spark", silver.table, events))
        for row in gold:
            row.add(DUCKDB, self._job("duckdb", row.table, self._answers))
        for way, executors in ways(self._args.executors).items():
            with self._cluster(executors) as master:
                for row in gold:
                    row.add(way, self._job("spark", row.table, self._answers, *master))
                    found = compared(row.table, self._warehouse, self._answers, self._args.memory)
                    row.rows, row.differing = found.rows, row.differing + found.differing
        return self._rows

    @contextmanager
    def _cluster(self, executors: int) -> Iterator[tuple[str, ...]]:
        if not executors:
            yield ()
            return
        folder = self._folder / f"cluster-{executors}"
        with standalone(folder, executors, self._args.memory) as cluster:
            yield (cluster.url,)

    def _job(self, engine: str, table: str, place: Path, *master: str) -> Ran:
        what = (engine, table, self._warehouse, place, self._args.memory, *master)
        ran = run(python("benchmarks.pipeline.jobs", *what), self._args.limit, environment())
        self._progress.step(f"{table}: {engine} {ran.said['seconds']:.1f} s")
        return ran


class Row:
    """A table, and what it took in each way."""

    def __init__(self, table: str) -> None:
        self.table = table
        self.seconds: dict[str, float] = {}
        self.memory: dict[str, int] = {}
        self.rows = self.differing = 0

    def add(self, way: str, ran: Ran) -> None:
        self.seconds[way], self.memory[way] = ran.said["seconds"], ran.memory


def ways(executors: list[int]) -> dict[str, int]:
    """Return how Spark runs: on so many executors, 0 being this machine by itself."""
    some = {f"{n} executor{'s' * (n > 1)}": n for n in executors}
    return {LOCAL: 0} | some


def show(rows: list[Row], events: int, names: list[str]) -> None:
    """Print one table of seconds, and one of memory."""
    heads = "".join(f"{name:>{COLUMN}}" for name in names)
    print(f"{events} events\n{'seconds':<10}{heads}{'rows':>{COLUMN}}{'differ':>8}")
    for row in rows:
        agreement = f"{row.rows:>{COLUMN}}{row.differing:>8}" if row.rows else ""
        print(f"{row.table:<10}{_cells(row.seconds, names, 1)}{agreement}")
    print(f"{'MiB':<10}{heads}")
    for row in rows:
        sizes = {name: size / 2**20 for name, size in row.memory.items()}
        print(f"{row.table:<10}{_cells(sizes, names, 0)}")


def _cells(values: dict[str, Any], names: list[str], digits: int) -> str:
    cells = (f"{values[name]:.{digits}f}" if name in values else "" for name in names)
    return "".join(f"{cell:>{COLUMN}}" for cell in cells)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "benchmarks.pipeline",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--events", type=int, default=EVENTS, metavar="N", help="of the log")
    parser.add_argument(
        "--executors",
        type=int,
        nargs="*",
        default=EXECUTORS,
        metavar="N",
        help="the sizes of the clusters; none: only this machine by itself",
    )
    parser.add_argument(
        "--memory", default="2g", metavar="SIZE", help="of DuckDB, a driver, an executor: 2g"
    )
    parser.add_argument(
        "--limit", type=float, default=1800, metavar="SECONDS", help="that one job may take"
    )
    parser.add_argument("--folder", metavar="PATH", help="for data, which are removed at the end")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    names = list(ways(args.executors))
    progress = Progress(2 + len(GOLD) * (1 + len(names)))
    with TemporaryDirectory(prefix="celery-fair-", dir=args.folder) as place:
        try:
            rows = Bench(Path(place), args, progress).run()
        except RuntimeError as exc:
            sys.exit(str(exc))
        finally:
            progress.close()
    if args.json:
        print(json.dumps([vars(row) for row in rows]))
    else:
        show(rows, args.events, [*names, DUCKDB])


if __name__ == "__main__":
    main()
