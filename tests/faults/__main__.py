"""Repeat the fault matrix in random order, at random moments, and say where every message went.

    python -m tests.faults --seconds 300 --seed 7
    python -m tests.faults --case "cut/redis" --runs 5

Exits with 1 if a message was started twice or is gone where none may be; what
was found is shown with the command that repeats it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from tests.faults.accounting import COLUMNS
from tests.faults.matrix import Case, cases
from tests.faults.scenes import Scenes, Servers

Rows = dict[tuple[str, str, str], Counter[str]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.faults", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--seconds", type=float, default=600, help="start no run later (%(default)s)"
    )
    parser.add_argument("--runs", type=int, help="stop after so many")
    parser.add_argument(
        "--seed", type=int, default=None, help="of the first run; the next has one more"
    )
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    return parser.parse_args()


def deck(text: str, seed: int) -> Iterator[Case]:
    """All cases in random order, again and again; of each fault one before another of any."""
    chosen = [case for case in cases() if text in str(case)]
    if not chosen:
        sys.exit(f"no case contains {text!r}; one of them is {next(cases())}")
    shuffling = Random(seed)
    while True:
        shuffled = shuffling.sample(chosen, len(chosen))
        first = {case.fault: case for case in shuffled}
        yield from first.values()
        yield from (case for case in shuffled if case is not first[case.fault])


def repeat(options: argparse.Namespace) -> tuple[Rows, list[str]]:
    rows: Rows = defaultdict(Counter)
    broken = []
    seed = time.time_ns() % 1_000_000 if options.seed is None else options.seed
    deadline = time.monotonic() + options.seconds
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="faults-")))
        servers = Servers()
        stack.callback(servers.end)
        scenes = Scenes(servers, folder)
        stack.callback(scenes.end)
        for number, case in enumerate(deck(options.case, seed)):
            left = deadline - time.monotonic()
            if left <= 0 or number == options.runs:
                break
            begun = time.monotonic()
            try:
                accounts = scenes.execute(case, seed + number)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is to be repeated
                again = f'python -m tests.faults --case "{case}" --seed {seed + number} --runs 1'
                broken.append(f"{case}: {type(error).__name__}: {error}\n  repeat: {again}")
                outcome = f"BROKEN: {type(error).__name__}"
            else:
                for task, account in accounts.items():
                    rows[case.fault, case.label, task] += account.row() + Counter(runs=1)
                outcome = _brief(sum((a.row() for a in accounts.values()), Counter()))
            took = time.monotonic() - begun
            line = f"{left:4.0f} s left  {number + 1:4}  {took:5.1f} s  {case}: {outcome}"
            print(line, file=sys.stderr, flush=True)
    return rows, broken


def _brief(row: Counter[str]) -> str:
    return ", ".join(f"{row[name]} {name}" for name in COLUMNS[2:] if row[name])


def table(rows: Rows) -> str:
    heads = ("fault", "broker", "task", "runs", *COLUMNS)
    lines = [
        (*key, *(str(row[name]) for name in ("runs", *COLUMNS)))
        for key, row in sorted(rows.items())
    ]
    total: Counter[str] = sum(rows.values(), Counter())
    lines.append(("all", "", "", *(str(total[name]) for name in ("runs", *COLUMNS))))
    widths = [max(map(len, column)) for column in zip(heads, *lines, strict=True)]
    aligned = (
        [
            cell.ljust(width) if place < 3 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in (heads, *lines)
    )
    return "\n".join("  ".join(line).rstrip() for line in aligned)


def main() -> int:
    options = arguments()
    try:
        rows, broken = repeat(options)
    except pytest.skip.Exception as missing:
        sys.exit(str(missing))
    if options.json:
        keys = ("fault", "broker", "task")
        found = [dict(zip(keys, key, strict=True)) | dict(row) for key, row in sorted(rows.items())]
        print(json.dumps({"rows": found, "broken": broken}, indent=1))
    else:
        print(table(rows))
        print("\n\n".join(broken) or "no law was broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
