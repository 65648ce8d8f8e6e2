"""Running the command in a process of its own; and results made up for tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from celery_fair.cli.demo.shares.published import TABLES
from celery_fair.cli.demo.shares.run import Run as SharesRun
from celery_fair.cli.demo.shares.workload import QUANTA, ROUND, Workload
from celery_fair.cli.demo.waits.run import Run as WaitsRun
from celery_fair.cli.demo.waits.scenario import Scenario
from tests.preloaded import PreloadedCelery, run_celery

COMMAND = ("fair", "demo")
CELERY = "Celery's own worker"


def run_demo(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    return run_celery([*COMMAND, *options], folder, os.environ, timeout=100)


def start_demo(folder: Path, *options: str) -> PreloadedCelery:
    """Start it; what it prints goes to its log, and what it keeps, too, into the folder."""
    environment = os.environ | {"TMPDIR": str(folder)}
    return PreloadedCelery([*COMMAND, *options], folder / "demo.log", environment, cwd=folder)


# Shares -------------------------------------------------------------------


def result(counts: Sequence[int], work: int) -> SharesRun:
    """A result with such counts: one start of each queue after another, at 1,000 a second."""
    left = list(counts)
    starts = []
    while any(left):
        for queue, count in enumerate(left):
            if count:
                left[queue] -= 1
                starts.append((queue, len(starts) / 1000))
    return SharesRun(workload(len(starts), work), started=starts)


def fair_result(work: int = 1, rounds: int = 60) -> SharesRun:
    """A result whose every round is exact."""
    order = [queue for queue, quantum in enumerate(QUANTA) for _ in range(quantum // 4)]
    starts = [(queue, number / 1000) for number, queue in enumerate(order * rounds)]
    assert len(starts) == ROUND * rounds
    return SharesRun(workload(len(starts), work), started=starts)


def flat_result() -> SharesRun:
    """A result as in Table 2, at a hundredth."""
    return result([count // 100 for count in TABLES[1].counts], 1)


def workload(starts: int, work: int) -> Workload:
    """One that ends after so many starts."""
    return Workload(starts // 5, work, starts)


# Waits --------------------------------------------------------------------


def waiting(waits: Sequence[float], fair: bool = True) -> WaitsRun:
    """A run whose mails waited so long; a newsletter starts every tenth of a second."""
    scenario = Scenario(0.15 * len(waits) + 0.01, 2)
    times = scenario.times
    assert len(times) == len(waits)
    mails = list(enumerate(times, scenario.newsletters))
    published = [(number, 0.0) for number in range(scenario.newsletters)] + mails
    started = [(number, 0.1 * number) for number in range(10)]
    started += [(n, at + wait) for (n, at), wait in zip(mails, waits, strict=True)]
    return WaitsRun(scenario, fair, published, sorted(started, key=lambda record: record[1]))
