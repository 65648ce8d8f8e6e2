"""The tests of a fault, run in a copy, and what came of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from tests.mutants.copied import Copied
from tests.mutants.fault import Fault

__all__ = ["NO_FAULT", "Trial", "healthy", "tried"]

NO_FAULT = "no fault"

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+(?: \S+\])?)", re.MULTILINE)
_LAST_LINES = 25
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


def tried(fault: Fault, copied: Copied) -> Trial:
    """Run a fault's tests with it."""
    with copied.faulty(fault):
        return _run(fault.name, fault.rows, fault.tests, copied, "-x")


def healthy(faults: Sequence[Fault], copied: Copied, jobs: int) -> Trial:
    """Run all tests without any fault: to be ``survived``."""
    tests = dict.fromkeys(test for fault in faults for test in fault.tests)
    options = ("-n", str(jobs), "--dist", "loadfile", "--maxfail", "5")
    return _run(NO_FAULT, (), tuple(tests), copied, *options, longest=1200)


def _run(
    name: str,
    rows: tuple[str, ...],
    tests: tuple[str, ...],
    copied: Copied,
    *options: str,
    longest: float = _LONGEST,
) -> Trial:
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-rfE", "--tb=short"]
    command += ["-p", "no:cacheprovider", f"--timeout={_A_TEST}", *options, *tests]
    begun = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=copied.folder,
        env=copied.environment | {"COLUMNS": "500"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=longest)
    except subprocess.TimeoutExpired:
        _end(process)
        output, _ = process.communicate()
        output += f"\nnot over within {longest} s"
    finally:
        _end(process)
    seconds = time.monotonic() - begun
    outcome = _OUTCOMES.get(process.returncode, "void")
    by = _FAILED.search(output)
    last = "\n".join(output.splitlines()[-_LAST_LINES:])
    return Trial(name, rows, outcome, by[1] if by else "", seconds, last)


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
