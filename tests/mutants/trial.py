"""The tests of a fault, run in a copy, and what came of it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from tests.mutants.fault import Fault
from tests.mutants.slot import Slot, of_spark

__all__ = ["NO_FAULT", "Trial", "healthy", "tried"]

NO_FAULT = "no fault"

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+(?: \S+\])?)", re.MULTILINE)
_LAST_LINES = 25
_LONGEST_OF_ALL = 1200
_LONGEST = 180  # seconds; a test that waits for what does not come fails before
_A_TEST = 60
_OUTCOMES = {0: "survived", 1: "killed"}


@dataclass(frozen=True)
class Trial:
    """What came of a fault: ``killed``, ``survived`` or ``void``."""

    name: str
    rows: tuple[str, ...]
    outcome: str
    by: str
    seconds: float
    output: str = ""


def tried(fault: Fault, slot: Slot) -> Trial:
    """Run a fault's tests with it."""
    with slot.copied.faulty(fault):
        return _run(fault.name, fault.rows, fault.tests, slot, "-x")


def healthy(faults: Sequence[Fault], slots: Sequence[Slot]) -> Iterator[Trial]:
    """Run all tests without any fault: to be ``survived``.

    Spark's share one session; the others run beside them, if there is more than one slot.
    """
    tests = dict.fromkeys(test for fault in faults for test in fault.tests)
    beside = ("-pxdist.plugin", "-n", str(len(slots)), "--dist", "loadfile")
    parts = (
        ((), [test for test in tests if of_spark(test)], slots[0]),
        (beside, [test for test in tests if not of_spark(test)], slots[-1]),
    )
    with ThreadPoolExecutor(min(len(slots), len(parts))) as pool:
        futures = [
            pool.submit(
                _run, NO_FAULT, (), part, slot, *options, "--maxfail", "5", longest=_LONGEST_OF_ALL
            )
            for options, part, slot in parts
            if part
        ]
        yield from (future.result() for future in as_completed(futures))


def _run(
    name: str,
    rows: tuple[str, ...],
    tests: Sequence[str],
    slot: Slot,
    *options: str,
    longest: float = _LONGEST,
) -> Trial:
    usual = ["-q", "--no-header", "-rfE", "--tb=short", "-m", "not wide"]
    usual += ["-p", "no:cacheprovider", f"--timeout={_A_TEST}"]
    begun = time.monotonic()
    try:
        code, output = slot.run(tests, [*usual, *options], longest)
    except TimeoutError as exc:
        code, output = -1, f"{exc}\nnot over within {longest} s"
    seconds = time.monotonic() - begun
    outcome = _OUTCOMES.get(code, "void")
    by = _FAILED.search(output)
    last = "\n".join(output.splitlines()[-_LAST_LINES:])
    return Trial(name, rows, outcome, by[1] if by else "", seconds, last)
