"""Running the command in a process of its own; and results made up for tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from celery_fair.cli.demo.published import TABLES
from celery_fair.cli.demo.run import Result
from celery_fair.cli.demo.workload import QUANTA, ROUND, Workload
from tests.preloaded import PreloadedCelery, run_celery

COMMAND = ("fair", "demo")


def run_demo(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    return run_celery([*COMMAND, *options], folder, os.environ, timeout=100)


def start_demo(folder: Path, *options: str) -> PreloadedCelery:
    """Start it; what it prints goes to its log."""
    return PreloadedCelery([*COMMAND, *options], folder / "demo.log", os.environ, cwd=folder)


def result(counts: Sequence[int], work: int) -> Result:
    """A result with such counts: one start of each queue after another, at 1,000 a second."""
    left = list(counts)
    starts = []
    while any(left):
        for queue, count in enumerate(left):
            if count:
                left[queue] -= 1
                starts.append((queue, len(starts) / 1000))
    return Result(Workload(len(starts) // 5, work), starts)


def fair_result(work: int = 1, rounds: int = 60) -> Result:
    """A result whose every round is exact."""
    order = [queue for queue, quantum in enumerate(QUANTA) for _ in range(quantum // 4)]
    starts = [(queue, number / 1000) for number, queue in enumerate(order * rounds)]
    assert len(starts) == ROUND * rounds
    return Result(Workload(len(starts) // 5, work), starts)


def flat_result() -> Result:
    """A result as in Table 2, at a hundredth."""
    return result([count // 100 for count in TABLES[1].counts], 1)
