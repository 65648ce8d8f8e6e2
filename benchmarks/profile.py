"""Where a task's time goes, by stage: vanilla Celery, and a fair worker by its plain and fast path.

    python -m benchmarks.profile [--json] [--rounds N] [--seconds S] [--sampled S]

Solo, on RabbitMQ, the work of `throughput`. First all run in turns, for the processor time of a
task; then py-spy looks at each for some seconds. A stage's share of its samples, times that, is
what the stage takes. See `stages.py` for what a stage is. Without py-spy, or where it may not look,
there is nothing to print.
"""

import json
import subprocess
import sys
import sysconfig
from argparse import ArgumentParser
from contextlib import ExitStack
from pathlib import Path
from shutil import which
from statistics import median
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

from benchmarks.contestant import LEAD, Contestant, contestant
from benchmarks.progress import Progress
from benchmarks.stages import by_stage
from benchmarks.throughput import FAIR, PLAIN, QUANTA, WARM_UP
from benchmarks.turns import serving, take_turns
from tests.brokers import RabbitMQ

MULTIPLIER = 256
"""Vanilla's best one on this pool."""
RATE = 400
"""Samples per second."""
FASTEST = 20_000
"""Tasks per second that no contestant reaches while it is looked at."""


class CannotLookError(Exception):
    """Py-spy is not there, or may not look."""


def spy() -> str:
    """Return where py-spy is."""
    found = which("py-spy", path=sysconfig.get_path("scripts")) or which("py-spy")
    if found is None:
        raise CannotLookError("py-spy is not installed")
    return found


def shares(program: str, each: Contestant, seconds: int) -> dict[str, float]:
    """Let it work, and look at it meanwhile."""
    each.refill(int(FASTEST * (LEAD + seconds)))
    with TemporaryDirectory() as folder:
        out = Path(folder) / "raw"
        options = ["--format", "raw", "--output", str(out), "--rate", str(RATE)]
        options += ["--duration", str(seconds), "--pid", str(each.worker.pid)]
        with each.awake():  # it cannot look at what is stopped
            Event().wait(LEAD)
            run = subprocess.run(
                [program, "record", *options], check=False, capture_output=True, text=True
            )
        if run.returncode or not out.exists():
            raise CannotLookError(f"py-spy failed: {run.stderr.strip()}")
        return by_stage(out.read_text().splitlines())


def measure(
    program: str, server: RabbitMQ, rounds: int, seconds: float, sampled: int, progress: Progress
) -> dict[str, dict[str, float]]:
    """Seconds per task by stage, by contestant."""
    even = dict.fromkeys(QUANTA, 1)
    prefetch = {"worker_prefetch_multiplier": MULTIPLIER}
    with ExitStack() as stack:
        everybody = [
            stack.enter_context(made)
            for made in (
                contestant("vanilla", server, even, fair=False, conf=prefetch),
                contestant("plain way", server, QUANTA, conf=PLAIN),
                contestant("fair", server, QUANTA, conf=FAIR),
            )
        ]
        take_turns(everybody, rounds, seconds, WARM_UP, progress, "without py-spy")
        found = {}
        for each in everybody:
            cost = median(run.cost for run in each.runs)
            parts = shares(program, each, sampled)
            found[each.name] = {stage: share * cost for stage, share in parts.items()}
            progress.step(f"{each.name}, with py-spy")
    return found


def show(figures: dict[str, dict[str, Any]]) -> None:
    print("microseconds of CPU per task")
    print(f"{'stage':<20}" + "".join(f"{name:>10}" for name in figures))
    columns = list(figures.values())
    for stage in columns[0]:
        print(f"{stage:<20}" + "".join(f"{column[stage] * 1e6:>10.1f}" for column in columns))
    print(f"{'all':<20}" + "".join(f"{sum(c.values()) * 1e6:>10.1f}" for c in columns))


def main() -> None:
    parser = ArgumentParser(prog="python -m benchmarks.profile", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--rounds", type=int, default=5, help="of turns (default: 5)")
    parser.add_argument("--seconds", type=float, default=0.8, help="a turn (default: 0.8)")
    parser.add_argument("--sampled", type=int, default=5, help="seconds, of each (default: 5)")
    args = parser.parse_args()
    progress = Progress(args.rounds + 3)
    try:
        program = spy()
        with serving(RabbitMQ()) as server:
            figures = measure(program, server, args.rounds, args.seconds, args.sampled, progress)
    except CannotLookError as exc:
        print(f"no profile: {exc}", file=sys.stderr)
        return
    progress.close()
    print(json.dumps(figures)) if args.json else show(figures)


if __name__ == "__main__":
    main()
