"""The tests of a fault, run in a copy, and what came of it."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from tests.mutants.fault import Fault
from tests.mutants.slot import Slot, of_spark

__all__ = ["NO_FAULT", "Patience", "Trial", "healthy", "tried"]

NO_FAULT = "no fault"

_TOOK = re.compile(r"^([\d.]+)s +(?:setup|call|teardown) +(\S.*?) *$", re.MULTILINE)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+(?: \S+\])?)", re.MULTILINE)
_LAST_LINES = 25
_LONGEST_OF_ALL = 1200
_LONGEST = 180  # seconds; a test that waits for what does not come fails before
_A_TEST = 60.0
_HANGS = 150  # it has not: where it stands is printed
_AT_LEAST, _FACTOR = 15.0, 3.0
_OUTCOMES = {0: "survived", 1: "killed"}
_INTERNAL = 3


@dataclass(frozen=True)
class Trial:
    """What came of a fault: ``killed``, ``survived`` or ``void``."""

    name: str
    rows: tuple[str, ...]
    outcome: str
    by: str
    seconds: float
    output: str = ""


class Patience:
    """How many seconds a test may take with a fault: that is often one that makes it wait."""

    def __init__(self) -> None:
        self._took = defaultdict[str, float](float)

    def learn(self, output: str) -> None:
        """Take in what tests took without any fault."""
        for seconds, test in _TOOK.findall(output):
            self._took[test] += float(seconds)

    def for_each_of(self, tests: Sequence[str]) -> float:
        """Return a bound for each of some tests: several times what the longest took."""
        wanted = tuple(tests)
        took = [seconds for test, seconds in self._took.items() if test.startswith(wanted)]
        return min(_A_TEST, _AT_LEAST + _FACTOR * max(took)) if took else _A_TEST


def tried(fault: Fault, slot: Slot, patience: Patience) -> Trial:
    """Run a fault's tests with it."""
    each = patience.for_each_of(fault.tests)
    with slot.copied.faulty(fault):
        return _run(fault.name, fault.rows, fault.tests, slot, "-x", f"--timeout={each}")[0]


def healthy(faults: Sequence[Fault], slots: Sequence[Slot], patience: Patience) -> Iterator[Trial]:
    """Run all tests without any fault: to be ``survived``.

    Spark's share one session; the others run beside them, if there is more than one slot.
    """
    tests = dict.fromkeys(test for fault in faults for test in fault.tests)
    usual = ("--maxfail=5", "--durations=0", "--durations-min=0", f"--timeout={_A_TEST}")
    beside = ("-pxdist.plugin", "-n", str(len(slots)), "--dist", "loadfile")
    parts = (
        ((), [test for test in tests if of_spark(test)], slots[0]),
        (beside, [test for test in tests if not of_spark(test)], slots[-1]),
    )
    with ThreadPoolExecutor(min(len(slots), len(parts))) as pool:
        futures = [
            pool.submit(_run, NO_FAULT, (), part, slot, *options, *usual, longest=_LONGEST_OF_ALL)
            for options, part, slot in parts
            if part
        ]
        for future in as_completed(futures):
            trial, output = future.result()
            patience.learn(output)
            yield trial


def _run(
    name: str,
    rows: tuple[str, ...],
    tests: Sequence[str],
    slot: Slot,
    *options: str,
    longest: float = _LONGEST,
) -> tuple[Trial, str]:
    usual = ["-q", "--no-header", "-rfE", "--tb=short", "-m", "not wide"]
    usual += ["-p", "no:cacheprovider", "-o", f"faulthandler_timeout={_HANGS}"]
    begun = time.monotonic()
    try:
        code, output = slot.run(tests, [*usual, *options], longest)
    except TimeoutError as exc:
        code, output = -1, f"{exc}\nnot over within {longest} s"
    seconds = time.monotonic() - begun
    late = code == _INTERNAL and "Timeout (>" in output  # it struck while pytest made its report
    outcome = "killed" if late else _OUTCOMES.get(code, "void")
    by = _FAILED.search(output)
    last = "\n".join(output.splitlines()[-_LAST_LINES:])
    return Trial(name, rows, outcome, by[1] if by else "", seconds, last), output
