"""The pipeline: Spark on one machine and on clusters, beside a lean job, and beside DuckDB.

    python -m benchmarks.pipeline [--json] [--events N] [--files N] [--increment N]
                                  [--executors N ...] [--memory SIZE] [--alone]

A fleet's log of so many events is made up, as JSON lines, a file for each process. `ingest` reads
it, as the command does; so does a lean job on Spark, and DuckDB, see `benchmarks.pipeline.lean`.
Then so many events more are read into the same warehouse (`increment`), and another log of so many
small files (`files`); `start` is what a log of a hundred events takes.

Then each gold table is made by Spark, as the commands do, on this machine by itself, and, as the
log is read once more, on standalone clusters of so many executors, which have a core of it each; by
Spark from a sentence of SQL, see `benchmarks.pipeline.lean_gold`; and by DuckDB from the silver
files, as the tests' oracle reckons. Printed are the seconds of it (for gold tables without the
start of the engine), the seconds that all its processes computed, and on clusters its driver alone,
the most memory that they had at once, those of a cluster among them, and how many rows of Spark's
are not DuckDB's: none should be.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.pipeline.agreement import attempts_compared, compared
from benchmarks.pipeline.fleet import write_logs
from benchmarks.pipeline.jobs import GOLD
from benchmarks.pipeline.watched import Ran, python, run
from benchmarks.progress import Progress
from tests.apart.standalone import environment, standalone

EVENTS = 1_000_000
FILES = 10_000
INCREMENT = 20_000
PER_SMALL_FILE = 8
EXECUTORS = (1, 2)
LOCAL = "local"
LEAN = "lean"
DUCKDB = "DuckDB"
COLUMN = 12


class Bench:
    """One run of it, in a folder that is empty."""

    def __init__(self, folder: Path, args: argparse.Namespace, progress: Progress) -> None:
        self._folder, self._args, self._progress = folder, args, progress
        self._warehouse, self._answers = folder / "warehouse", folder / "answers"

    def run(self) -> "list[Row]":
        """Make each table in each way."""
        start, ingest, *others = self._ingested()
        gold = self._gold(ingest)
        return [start, ingest, *others, *gold]

    def _ingested(self) -> "list[Row]":
        """Read logs, in each way that can."""
        logs = self._folder / "logs"
        write_logs(logs, self._args.events, self._args.increment)
        self._progress.step(f"{self._args.events} events")
        ingest, increment = self._read("ingest", logs), Row("increment")
        (self._folder / "later").rename(logs / "later")
        increment.add(LOCAL, self._ingest("celery-fair", logs, self._warehouse))
        return [self._read("start", self._many("few", 100)), ingest, increment, self._files()]

    def _files(self) -> "Row":
        records = self._args.files * PER_SMALL_FILE
        return self._read("files", self._many("many", records))

    def _many(self, name: str, records: int) -> Path:
        logs = self._folder / name / "logs"
        write_logs(logs, records, per_file=PER_SMALL_FILE)
        return logs

    def _read(self, name: str, logs: Path) -> "Row":
        row, place = Row(name), self._folder / f"{name}-read"
        ours = self._warehouse if name == "ingest" else place / "warehouse"
        row.add(LOCAL, self._ingest("celery-fair", logs, ours))
        others = () if self._args.alone else ((LEAN, "spark"), (DUCKDB, "duckdb"))
        for way, engine in others:
            row.add(way, self._ingest(engine, logs, place / engine))
            found = attempts_compared(ours, place / engine, self._args.memory)
            row.rows, row.differing = found.rows, row.differing + found.differing
        if place.exists():
            rmtree(place)
        return row

    def _ingest(self, way: str, logs: Path, out: Path, *master: str) -> Ran:
        out.parent.mkdir(exist_ok=True)
        what = (way, logs, out, self._args.memory, *master)
        words = python("benchmarks.pipeline.ingesting", *what)
        ran = run(words, self._args.limit, environment())
        self._progress.step(f"{logs.parent.name}: {way} {ran.cpu:.1f} s of CPU")
        return ran

    def _gold(self, ingest: "Row") -> "list[Row]":
        gold = list(map(Row, GOLD))
        self._answers.mkdir()
        for way, executors in ways(self._args.executors).items():
            with self._cluster(executors) as master:
                if executors:
                    ingest.add(way, self._anew(*master))
                for row in gold:
                    row.add(way, self._job("spark", row.table, self._answers, *master))
                    if self._args.alone:
                        continue
                    if way == LOCAL:
                        row.add(DUCKDB, self._job("duckdb", row.table, self._answers))
                        row.add(LEAN, self._job("lean", row.table, self._answers))
                        self._compare(row, lean=True)
                    self._compare(row)
        return gold

    def _anew(self, *master: str) -> Ran:
        """Read the log once more, into a warehouse that nobody asks."""
        place = self._folder / "anew"
        ran = self._ingest("celery-fair", self._folder / "logs", place / "warehouse", *master)
        rmtree(place)
        return ran

    def _compare(self, row: "Row", lean: bool = False) -> None:
        where = (row.table, self._warehouse, self._answers, self._args.memory)
        found = compared(*where, lean)
        row.rows, row.differing = found.rows, row.differing + found.differing

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
        self.cpu: dict[str, float] = {}
        self.driver: dict[str, float] = {}
        self.memory: dict[str, int] = {}
        self.rows = self.differing = 0

    def add(self, way: str, ran: Ran) -> None:
        self.seconds[way], self.memory[way] = ran.said["seconds"], ran.memory
        self.cpu[way], self.driver[way] = ran.cpu, ran.own


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
    print(f"{'CPU s':<10}{heads}")
    for row in rows:
        print(f"{row.table:<10}{_cells(row.cpu, names, 1)}")
    if any("executor" in name for name in names):
        print(f"{'of drivers':<10}{heads}")
        for row in rows:
            print(f"{row.table:<10}{_cells(row.driver, names, 1)}")
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
        "--files", type=int, default=FILES, metavar="N", help="of the log of small files"
    )
    parser.add_argument(
        "--increment", type=int, default=INCREMENT, metavar="N", help="events that come later"
    )
    parser.add_argument(
        "--executors",
        type=int,
        nargs="*",
        default=EXECUTORS,
        metavar="N",
        help="the sizes of the clusters; none: only this machine by itself",
    )
    parser.add_argument(
        "--alone", action="store_true", help="the commands alone: no lean jobs, no DuckDB"
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
    progress = Progress(10 + len(names) + len(GOLD) * (2 + len(names)))
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
        others = ([], []) if args.alone else ([LEAN], [DUCKDB])
        show(rows, args.events, [LOCAL, *others[0], *names[1:], *others[1]])


if __name__ == "__main__":
    main()
