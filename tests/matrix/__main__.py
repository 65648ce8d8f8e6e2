"""Try five things on each broker, queue, pool and Celery, pairwise, and say what held.

    python -m tests.matrix --json var/matrix.json
    python -m tests.matrix --only "RabbitMQ 4/quorum" --only gevent

Exits with 1 if anything failed. What is not on this machine is told as not run, with its reason.
Results of some cells only take the place of these cells' in the file.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from platform import python_version
from threading import Lock
from typing import Any

from tests.matrix.cell import POOLS, Cell, cells
from tests.matrix.cover import cover
from tests.matrix.page import outcomes, rows
from tests.matrix.pythons import pythons
from tests.matrix.servers import MissingError, Servers
from tests.matrix.things import THINGS
from tests.processes import children_hear_signals

Results = dict[str, dict[str, str]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.matrix", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--only", action="append", default=[], help="cells whose name contains this; repeatable"
    )
    parser.add_argument("--thing", choices=THINGS, help="only this, of each cell")
    parser.add_argument("--json", type=Path, help="write what was found to this file")
    parser.add_argument("--seed", type=int, default=1, help="of the faults' moments (%(default)s)")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="cells at a time (%(default)s)")
    options = parser.parse_args()
    if options.thing and options.json:
        parser.error("the file has whole cells: --json does not go with --thing")
    return options


class Matrix:
    """Tries cells, in several threads."""

    def __init__(
        self, folder: Path, stack: ExitStack, seed: int, count: int, thing: str | None
    ) -> None:
        self._folder, self._seed, self._count = folder, seed, count
        self._things = {thing: THINGS[thing]} if thing else THINGS
        self._servers = Servers(stack)
        self._pythons = pythons()
        self._printing, self._done = Lock(), 0

    @property
    def versions(self) -> dict[str, Any]:
        """Of all that took part."""
        celerys = {name: version for name, (version, _) in sorted(self._pythons.items())}
        servers = dict(sorted(self._servers.versions.items()))
        return {"Python": python_version(), "brokers": servers, "Celery": celerys}

    def try_(self, cell: Cell) -> Results:
        """Return the outcome of each thing: `outcome` is passed, failed or not run."""
        begun = time.monotonic()
        results = dict(self._tried(cell))
        with self._printing:
            self._done += 1
            took = time.monotonic() - begun
            said = outcomes(results)
            print(f"{self._done:3}/{self._count}  {took:5.1f} s  {cell}: {said}", file=sys.stderr)
            for result in results.values():
                if result["outcome"] == "failed":
                    print(result["said"], file=sys.stderr)
        return results

    def _tried(self, cell: Cell) -> Iterator[tuple[str, dict[str, str]]]:
        """A scene on which something has failed is not used again."""
        with ExitStack() as stack:
            scene = None
            for name, thing in self._things.items():
                try:
                    scene = scene or self._scene(cell, stack)
                    said = thing(scene, self._seed)
                except MissingError as missing:
                    yield name, {"outcome": "not run", "said": str(missing)}
                except Exception as error:  # noqa: BLE001 - whatever it is, it is told
                    scene = None
                    yield name, {"outcome": "failed", "said": f"{type(error).__name__}: {error}"}
                else:
                    yield name, {"outcome": "passed", "said": said}

    def _scene(self, cell: Cell, stack: ExitStack) -> Any:
        if cell.celery not in self._pythons:
            raise MissingError(f"no environment with Celery {cell.celery}: tox makes one")
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        options = {
            "queue_type": cell.queue,
            "pool": cell.pool,
            "concurrency": POOLS[cell.pool],
            "python": self._pythons[cell.celery][1],
        }
        return self._servers.scene(cell.broker, folder, stack, **options)


def main() -> int:
    options = arguments()
    chosen = [cell for cell in cover(cells()) if all(text in str(cell) for text in options.only)]
    if not chosen:
        sys.exit(f"no cell contains {options.only}")
    begun = time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(children_hear_signals())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="matrix-")))
        matrix = Matrix(folder, stack, options.seed, len(chosen), options.thing)
        together = ThreadPoolExecutor(options.jobs)
        stack.callback(together.shutdown, cancel_futures=True)  # whoever breaks it off
        found = list(together.map(matrix.try_, chosen))
    made = {
        "made": f"{datetime.now(UTC):%Y-%m-%d}",
        "versions": matrix.versions,
        "cells": [
            cell._asdict() | {"things": results}
            for cell, results in zip(chosen, found, strict=True)
        ],
    }
    if options.json:
        keep(made, options.json)
    return told(made, minutes=(time.monotonic() - begun) / 60)


def keep(made: dict[str, Any], path: Path) -> None:
    """Write what was found; what the file has of other cells stays, in the order of the cover."""
    known = json.loads(path.read_text()) if path.exists() else {"versions": {}, "cells": []}
    by_cell = {_cell(one): one for one in [*known["cells"], *made["cells"]]}
    versions = made["versions"]
    for kind in ("brokers", "Celery"):
        versions[kind] = known["versions"].get(kind, {}) | versions[kind]
    kept = [by_cell[cell] for cell in cover(cells()) if cell in by_cell]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(made | {"cells": kept}, indent=1) + "\n")


def _cell(found: dict[str, Any]) -> Cell:
    return Cell(*(found[field] for field in Cell._fields))


def told(made: dict[str, Any], minutes: float) -> int:
    """Print the table, and what went wrong; return the exit code."""
    lines = list(rows(made))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(map(str.ljust, line, widths)).rstrip())
    every = [
        (cell, name, result) for cell in made["cells"] for name, result in cell["things"].items()
    ]
    failed = [one for one in every if one[2]["outcome"] == "failed"]
    for cell, name, result in failed:
        named = _cell(cell)
        print(f"\n{named}: {name}: {result['said']}")
        print(f'  repeat: python -m tests.matrix --only "{named}"')
    counts = ", ".join(
        f"{sum(one[2]['outcome'] == outcome for one in every)} {outcome}"
        for outcome in ("passed", "failed", "not run")
    )
    print(f"{counts}, in {minutes:.1f} minutes")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
