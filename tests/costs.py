"""What each test costs of the processors: ``make test-costs``.

    CELERY_FAIR_TEST_COSTS=folder make test
    python -m tests.costs folder

Where the variable names a folder, each process of a run appends a line a test to a file of its
own there: the seconds of processor that it and its children took for it, and the seconds on
the clock. What came before a process's first test, that is to import and to collect them, stands
as a test of no file. Children that live on, such as Spark's JVM, are asked anew each time. A node
of RabbitMQ that was lent is no child, and does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

__all__ = ["VARIABLE", "Costs"]

VARIABLE = "CELERY_FAIR_TEST_COSTS"
_TICKS = os.sysconf("SC_CLK_TCK")


class Costs:
    """The plugin that writes them down."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / f"{os.getpid()}.jsonl").open("a")
        self._first = True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        begun, before = time.monotonic(), spent()
        if self._first:
            self._write("", before, 0)
            self._first = False
        try:
            return (yield)
        finally:
            self._write(item.nodeid, spent() - before, time.monotonic() - begun)

    def _write(self, test: str, cpu: float, wall: float) -> None:
        line = {"test": test, "cpu": round(cpu, 3), "wall": round(wall, 3)}
        print(json.dumps(line), file=self._file, flush=True)


def spent() -> float:
    """Return the seconds of processor that this process and its children have taken."""
    ended = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in ended) + sum(_living())


def _living() -> Iterator[float]:
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # the thread, or the child, has ended
            for pid in (task / "children").read_text().split():
                stat = Path(f"/proc/{pid}/stat").read_text()
                yield sum(map(int, stat.rpartition(")")[2].split()[11:15])) / _TICKS


def by_file(lines: Iterable[dict[str, object]]) -> list[tuple[str, int, float, float]]:
    """Return files, how many tests, seconds of processor and on the clock; dearest first."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for line in lines:
        file = str(line["test"]).partition("::")[0] or "(to collect)"
        found[file].append((float(str(line["cpu"])), float(str(line["wall"]))))
    rows = [
        (file, len(costs), sum(cpu for cpu, _ in costs), sum(wall for _, wall in costs))
        for file, costs in found.items()
    ]
    return sorted(rows, key=lambda row: -row[2])


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.costs", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="what CELERY_FAIR_TEST_COSTS named")
    parser.add_argument("--tests", action="store_true", help="a line a test, not a file")
    options = parser.parse_args()
    lines = [
        json.loads(line)
        for file in sorted(options.folder.glob("*.jsonl"))
        for line in file.read_text().splitlines()
    ]
    if not lines:
        sys.exit(f"no costs in {options.folder}; run tests with {VARIABLE}={options.folder}")
    print(f"{'cpu s':>8} {'wall s':>8} {'tests':>6}")
    if options.tests:
        for line in sorted(lines, key=lambda line: -line["cpu"]):
            print(f"{line['cpu']:8.2f} {line['wall']:8.2f} {1:6} {line['test']}")
    else:
        for file, tests, cpu, wall in by_file(lines):
            print(f"{cpu:8.1f} {wall:8.1f} {tests:6} {file}")
    cpu, wall = (sum(line[name] for line in lines) for name in ("cpu", "wall"))
    print(f"{cpu:8.1f} {wall:8.1f} {len(lines):6} in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
