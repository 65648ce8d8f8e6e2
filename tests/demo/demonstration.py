"""Running the command in a process of its own; and results made up for tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from celery_fair.cli.demo.broker import Broker
from celery_fair.cli.demo.scenario import Record, Run, Scenario
from celery_fair.cli.demo.worker import Setup
from tests.preloaded import PreloadedCelery, run_celery

COMMAND = ("fair", "demo")
CELERY = "Celery's own worker"
LONG, SHORT = [0.5, 0.6, 0.7] * 4, [0.01, 0.02] * 6


def run_demo(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    return run_celery([*COMMAND, *options], folder, os.environ, timeout=100)


def start_demo(folder: Path, *options: str) -> PreloadedCelery:
    """Start it; what it prints goes to its log, and what it keeps, too, into the folder."""
    environment = os.environ | {"TMPDIR": str(folder)}
    return PreloadedCelery([*COMMAND, *options], folder / "demo.log", environment, cwd=folder)


def set_up(run: Run | None = None, url: str = "memory://", pool: str = "threads") -> Setup:
    """What is asked for, by someone who gets such runs."""
    return Setup(Broker(url), pool, Scenario(3, 2) if run is None else run.scenario)


def waiting(waits: Sequence[float], fair: bool = True) -> Run:
    """A run whose mails waited so long; a newsletter starts every tenth of a second."""
    scenario = Scenario(0.15 * len(waits) + 0.01, 2)
    times = scenario.times
    assert len(times) == len(waits)
    records = [Record(False, number, 0.0) for number in range(scenario.newsletters)]
    records += [Record(True, number, 0.1 * number) for number in range(10)]
    for number, (at, wait) in enumerate(zip(times, waits, strict=True), scenario.newsletters):
        records += [Record(False, number, at), Record(True, number, at + wait)]
    return Run(scenario, fair, sorted(records, key=lambda record: record.at))


def both(long: Sequence[float] = LONG, short: Sequence[float] = SHORT) -> list[Run]:
    """Two runs, the second of which is better."""
    return [waiting(long, fair=False), waiting(short)]
