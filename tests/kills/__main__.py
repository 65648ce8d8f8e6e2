"""Kill publishers, workers, sorters, stores and brokers of keyed queues at random, and count.

    python -m tests.kills --kills 1000 --seed 7
    python -m tests.kills --on "rabbitmq quorum" --kills 100

Exits with 1 if a message is lost or was started twice that must not be, if more tasks of a key ran
at once than its cap, or if a key or a lane waited for longer than is promised; what was found is
shown with the command that repeats it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.brokers import RabbitMQ, RedisServer
from tests.conftest import running
from tests.kills.siege import BACKLOG, CASES, Case, Found, Siege
from tests.kills.tables import row, table
from tests.processes import children_hear_signals
from tests.workers import starting_workers

_WIDTH = 30


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.kills", description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=1000, help="in all (%(default)s)")
    parser.add_argument("--seed", type=int, help="of who is killed, and when")
    parser.add_argument("--on", default="", help="only on brokers whose name contains this")
    parser.add_argument("--json", action="store_true", help="print the tables as JSON")
    return parser.parse_args()


def besiege(
    case: Case,
    kills: int,
    seed: int,
    step: Callable[[str], object] = str,
    backlog: int = BACKLOG,
) -> Found:
    """Kill so many, and say each time who it was; return what was found."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kills-")))
        stack.enter_context(children_hear_signals())
        redis = RedisServer(durable=True)
        rabbitmq = RabbitMQ() if case.broker == "rabbitmq" else None
        for server in filter(None, (redis, rabbitmq)):
            stack.enter_context(contextmanager(running)(server))
        start = stack.enter_context(starting_workers(folder))
        siege = Siege(case, (rabbitmq or redis).space(), redis, start, folder, seed, backlog)
        stack.callback(siege.end)
        for victim in siege.kills(kills):
            step(victim)
        siege.settle()
        return siege.check()


class Progress:
    """A bar on a terminal; elsewhere a line now and then."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._began = total, 0, time.monotonic()
        self._is_terminal = sys.stderr.isatty()

    def step(self, case: Case, what: str) -> None:
        self._done += 1
        full = _WIDTH * self._done // self._total
        elapsed = time.monotonic() - self._began
        bar = f"[{'#' * full:<{_WIDTH}}] {self._done}/{self._total} kills {elapsed:4.0f} s"
        if self._is_terminal:
            print(f"\r{bar}  {case}: {what:<10}", end="", file=sys.stderr, flush=True)
        elif self._done % max(1, self._total // 20) == 0:
            print(f"{bar}  {case}", file=sys.stderr, flush=True)


def main() -> int:
    options = arguments()
    chosen = [case for case in CASES if options.on in str(case)]
    if not chosen:
        sys.exit(f"no broker contains {options.on!r}; there are {', '.join(map(str, CASES))}")
    seed = time.time_ns() % 1_000_000 if options.seed is None else options.seed
    progress = Progress(options.kills)
    every: dict[str, Found] = {}
    for number, case in enumerate(chosen):
        each = options.kills // len(chosen) + (number < options.kills % len(chosen))
        try:
            every[str(case)] = besiege(case, each, seed, partial(progress.step, case))
        except pytest.skip.Exception as missing:
            sys.exit(str(missing))
    wrong = [
        f"{case}: {what}\n  repeat: python -m tests.kills"
        f' --on "{case}" --kills {found.kills.total()} --seed {seed}'
        for case, found in every.items()
        for what in found.violations
    ]
    print(file=sys.stderr)
    if options.json:
        print(
            json.dumps(
                {"seed": seed, "rows": [row(*each) for each in every.items()], "broken": wrong},
                indent=1,
            )
        )
    else:
        print(table([row(*each) for each in every.items()]))
        print("\n\n".join(wrong) or f"no law was broken (seed {seed})")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
