"""Put faults into a copy of the product, one at a time, and see which test notices.

    python -m tests.mutants
    python -m tests.mutants --only leash --only C1
    python -m tests.mutants tests/mutants/once.toml --json once.json

Exits with 1 if a fault survives, if one no longer fits the tree, if a row has no
fault (when all are run), or if the tests fail without any fault.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import asdict
from itertools import filterfalse
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.fault import Fault, FaultError, read, rows_without
from tests.mutants.slot import Slot, of_spark
from tests.mutants.trial import NO_FAULT, Patience, Trial, healthy, tried
from tests.processes import ROOT


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tests.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="only those in here")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="WORD",
        help="only faults whose name, or one of whose rows, contains this; may be repeated",
    )
    parser.add_argument(
        "--jobs", type=int, default=3 * (os.cpu_count() or 2), help="at a time (%(default)s)"
    )
    parser.add_argument(
        "--minutes", type=float, default=60, help="begin no fault later (%(default)s)"
    )
    parser.add_argument(
        "--after-tests",
        action="store_true",
        help="the tests have just passed: do not run them without any fault first",
    )
    parser.add_argument("--list", action="store_true", help="list them, and try none")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table as JSON too")
    options = parser.parse_args()
    if options.jobs < 1 or not options.minutes > 0:
        parser.error("--jobs must be at least 1, and --minutes above 0")
    return options


def chosen(options: argparse.Namespace) -> list[Fault]:
    """Return the faults that the options ask for."""
    found = [
        fault
        for fault in read(options.files)
        if not options.only
        or any(word in fault.name or word in fault.rows for word in options.only)
    ]
    if not found:
        sys.exit(f"no fault for {options.only or options.files}; --list shows all")
    return found


def trials(
    faults: Sequence[Fault], jobs: int, minutes: float, after_tests: bool
) -> Iterator[Trial]:
    """Try all of them, several at a time, each in a copy of its own; yield what comes of them.

    Those that need Spark one after the other, in one JVM: it takes a core, and others wait.
    """
    deadline, patience = time.monotonic() + 60 * minutes, Patience()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        made = [Slot(Path(folder) / str(number)) for number in range(jobs)]
        if not after_tests:
            yield from healthy(faults, made, patience)

        first, others = slots_of(made[:1]), slots_of(made[1:])
        if not others.qsize():
            others = first

        def attempt(fault: Fault) -> Trial:
            if time.monotonic() > deadline:
                return Trial(fault.name, fault.rows, "void", f"{minutes:g} minutes are over", 0)
            slots = first if needs_spark(fault) else others
            slot = slots.get()
            try:
                return tried(fault, slot, patience)
            finally:
                slots.put(slot)

        with ExitStack() as ending:
            for slot in made:
                ending.callback(slot.close)
            futures = []
            for some in (filter(needs_spark, faults), filterfalse(needs_spark, faults)):
                pool = ThreadPoolExecutor(jobs)
                ending.callback(pool.shutdown, cancel_futures=True)
                futures += [pool.submit(attempt, fault) for fault in some]
            yield from (future.result() for future in as_completed(futures))


def needs_spark(fault: Fault) -> bool:
    """Whether a session of Spark's is needed."""
    return any(map(of_spark, fault.tests))


def slots_of(made: Sequence[Slot]) -> SimpleQueue[Slot]:
    """Return slots that wait for somebody."""
    slots: SimpleQueue[Slot] = SimpleQueue()
    for slot in made:
        slots.put(slot)
    return slots


def row(trial: Trial) -> str:
    """Return a trial as a line of the table."""
    rows = ", ".join(trial.rows)
    return f"{trial.outcome:9} {trial.seconds:6.1f} s  {trial.name}  [{rows}]  {trial.by}"


def main() -> int:
    options = arguments()
    try:
        faults = chosen(options)
        for fault in faults:
            fault.check(ROOT)
    except FaultError as exc:
        sys.exit(str(exc))
    if options.list:
        for fault in faults:
            print(f"{', '.join(fault.rows)}: {fault.name}")
        return 0
    begun = time.monotonic()
    done: list[Trial] = []
    for trial in trials(faults, options.jobs, options.minutes, options.after_tests):
        if trial.name == NO_FAULT:
            if trial.outcome != "survived":
                print(trial.output, file=sys.stderr)
                sys.exit("The tests fail without any fault: nothing can be told of faults.")
            print(f"without any fault the tests pass, in {trial.seconds:.0f} s", flush=True)
            continue
        done.append(trial)
        print(f"{len(done):3} of {len(faults)}  {row(trial)}", flush=True)
        if trial.outcome != "killed":
            print(trial.output, flush=True)
    return verdict(options, faults, done, time.monotonic() - begun)


def verdict(
    options: argparse.Namespace, faults: Sequence[Fault], done: Sequence[Trial], seconds: float
) -> int:
    """Print what came of all; return the exit status."""
    if options.json:
        options.json.write_text(json.dumps([asdict(trial) for trial in done], indent=1))
    counts = Counter(trial.outcome for trial in done)
    told = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("killed", "survived", "void"))
    print(f"\n{len(done)} fault{'s' * (len(done) != 1)} in {seconds:.0f} s: {told}")
    for trial in done:
        if trial.outcome != "killed":
            print(row(trial))
    without = [] if options.only or options.files else rows_without(faults)
    if without:
        print(f"rows that no fault breaks: {', '.join(without)}")
    return int(bool(without) or counts["killed"] < len(faults))


if __name__ == "__main__":
    sys.exit(main())
