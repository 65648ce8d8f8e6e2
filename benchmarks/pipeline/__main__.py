"""The pipeline's tables: what Spark takes beside DuckDB, and a cluster beside one machine.

    python -m benchmarks.pipeline [--json] [--events N] [--lines N] [--memory SIZE] [--limit S]

A fleet's log of so many events is made up, and its silver tables by Spark; then each gold table by
Spark, as the commands do, and by DuckDB from the same silver files, as the tests' oracle reckons.
Printed are seconds without the start of the engine, the most memory that its processes had at once,
and how many rows of the two differ: none should. With --lines the commands run on raw logs besides,
on this machine by itself and on standalone clusters of one and two executors.
"""

import argparse
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.pipeline.agreement import compared
from benchmarks.pipeline.executors import COMMANDS, WAYS, Timed, commands_on_logs, show
from benchmarks.pipeline.fleet import write_events
from benchmarks.pipeline.jobs import GOLD
from benchmarks.pipeline.watched import Ran, python, run
from benchmarks.progress import Progress

EVENTS = 1_000_000
ENGINES = ("spark", "duckdb")


def gold(folder: Path, args: argparse.Namespace, progress: Progress) -> list[dict[str, Any]]:
    """Make each table by each engine; return a row for each."""
    warehouse, events, answers = (folder / name for name in ("warehouse", "events", "answers"))
    answers.mkdir()
    write_events(events, args.events)
    progress.step(f"{args.events} events")

    def job(engine: str, table: str, place: Path) -> Ran:
        words = python("benchmarks.pipeline.jobs", engine, table, warehouse, place, args.memory)
        ran = run(words, args.limit)
        progress.step(f"{table}: {engine} {ran.said['seconds']:.1f} s")
        return ran

    rows = [_row("silver", {"spark": job("spark", "silver", events)})]
    for table in GOLD:
        ran = {engine: job(engine, table, answers) for engine in ENGINES}
        agreement = compared(table, warehouse, answers, args.memory)
        rows.append(_row(table, ran) | agreement._asdict())
        progress.step(f"{table}: {agreement.differing} of {agreement.rows} rows differ")
    return rows


def _row(table: str, ran: dict[str, Ran]) -> dict[str, Any]:
    row: dict[str, Any] = {"table": table}
    for engine, each in ran.items():
        row |= {f"{engine}_seconds": each.said["seconds"], f"{engine}_bytes": each.memory}
    return row


def show_gold(rows: list[dict[str, Any]], events: int) -> None:
    print(f"{events} events\n{'':<10}{'Spark':>9}{'DuckDB':>9}{'Spark':>10}{'DuckDB':>10}")
    print(f"{'table':<10}{'s':>9}{'s':>9}{'MiB':>10}{'MiB':>10}{'rows':>12}{'differ':>8}")
    for row in rows:
        seconds, sizes = (
            [row.get(f"{engine}_{unit}") for engine in ENGINES] for unit in ("seconds", "bytes")
        )
        cells = "".join(f"{'' if each is None else f'{each:.2f}':>9}" for each in seconds)
        cells += "".join(f"{'' if each is None else f'{each / 2**20:.0f}':>10}" for each in sizes)
        print(f"{row['table']:<10}{cells}{row.get('rows', ''):>12}{row.get('differing', ''):>8}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "benchmarks.pipeline",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--events", type=int, default=EVENTS, metavar="N", help="of the log")
    parser.add_argument("--lines", type=int, default=0, metavar="N", help="of raw logs; 0: none")
    parser.add_argument("--memory", default="2g", metavar="SIZE", help="of each engine, such as 2g")
    parser.add_argument(
        "--limit", type=float, default=1800, metavar="SECONDS", help="that one job may take"
    )
    parser.add_argument("--folder", metavar="PATH", help="for data, which are removed at the end")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    in_ways = 1 + len(WAYS) * len(COMMANDS)
    progress = Progress(2 + 3 * len(GOLD) + (in_ways if args.lines else 0))
    times: list[Timed] = []
    with TemporaryDirectory(prefix="celery-fair-", dir=args.folder) as place:
        try:
            rows = gold(Path(place), args, progress)
            if args.lines:
                times = commands_on_logs(args.lines, Path(place), args.limit, progress)
        except RuntimeError as exc:
            sys.exit(str(exc))
        finally:
            progress.close()
    if args.json:
        print(json.dumps({"gold": rows, "commands": [timed._asdict() for timed in times]}))
        return
    show_gold(rows, args.events)
    if times:
        show(times)


if __name__ == "__main__":
    main()
