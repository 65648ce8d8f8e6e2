"""Contestants in turns, and what the scripts that let them have in common on the command line."""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from statistics import median
from typing import Any

from benchmarks.contestant import LEAD, Contestant
from benchmarks.progress import Progress
from tests.conftest import running

__all__ = [
    "arguments",
    "pairs",
    "parser_of",
    "row",
    "serving",
    "show_rows",
    "show_speeds",
    "take_turns",
]

_BACKLOG_SECONDS_AT = 15000
"""Tasks per second that no contestant reaches: the backlog is sized by it."""


serving = contextmanager(running)
"""Start a broker, wait until it answers, and end it."""


def parser_of(prog: str, doc: str | None) -> ArgumentParser:
    """Return a script's parser, with --json."""
    parser = ArgumentParser(
        prog=f"python -m {prog}",
        description=doc,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    return parser


def arguments(
    prog: str, doc: str | None, every: Collection[str], usual: Collection[str], rounds: int = 5
) -> ArgumentParser:
    """Return a parser.

    Arguments:
        every: the pairs of broker and pool that there are.
        usual: those that are meant when none is named.
    """
    parser = parser_of(prog, doc)
    parser.add_argument("--rounds", type=int, default=rounds, help=f"of turns (default: {rounds})")
    parser.add_argument("--seconds", type=float, default=0.6, help="a turn (default: 0.6)")
    parser.add_argument(
        "what",
        nargs="*",
        metavar="BROKER:POOL",
        default=list(usual),
        help=f"of {', '.join(every)} (default: {', '.join(usual)})",
    )
    return parser


def pairs(brokers: Collection[str], pools: Collection[str]) -> list[str]:
    """Return all pairs as they are written on the command line."""
    return [f"{broker}:{pool}" for broker in brokers for pool in pools]


def take_turns(
    everybody: list[Contestant],
    rounds: int,
    seconds: float,
    warm_up: int,
    progress: Progress,
    label: str,
    beside: Callable[[Contestant], AbstractContextManager[object]] = nullcontext,
) -> None:
    """Let each work for so many tasks first, and then all in turns, now this way, now that way.

    Arguments:
        beside: what goes on during a contestant's turn.
    """
    for each in everybody:
        each.refill(warm_up + 500)
        each.warm_up(warm_up)
    for number in range(rounds):
        for each in everybody if number % 2 else reversed(everybody):
            each.refill(int(_BACKLOG_SECONDS_AT * (LEAD + seconds)))
            with beside(each):
                each.run(seconds)
        progress.step(label)


def row(broker: str, pool: str, way: Contestant, plain: Contestant) -> dict[str, Any]:
    """Return a contestant's medians, its speed as a ratio to another's in the same rounds."""
    pairs = list(zip(way.runs, plain.runs, strict=True))
    return {
        "broker": broker,
        "pool": pool,
        "way": way.name,
        "speed": median(run.speed for run in way.runs),
        "ratio": median(ours.speed / theirs.speed for ours, theirs in pairs),
        "cpu": median(run.cost for run in way.runs),
    }


def show_speeds(rows: Sequence[dict[str, Any]]) -> None:
    """Print what `row` has made; the ratio is to the first of its broker and pool."""
    print("tasks per second, of the first; microseconds of CPU per task")
    print(f"{'broker':<9} {'pool':<10} {'way':<15} {'speed':>7} {'ratio':>6} {'CPU':>6}")
    for r in rows:
        print(
            f"{r['broker']:<9} {r['pool']:<10} {r['way']:<15} {r['speed']:>7.0f} {r['ratio']:>6.2f}"
            f" {r['cpu'] * 1e6:>6.0f}"
        )


def show_rows(rows: Sequence[Mapping[str, Any]], digits: int = 2) -> None:
    """Print rows of the same columns as a table, and an empty line."""
    for row in (list(rows[0]), *(list(row.values()) for row in rows)):
        cells = (f"{cell:.{digits}f}" if isinstance(cell, float) else f"{cell}" for cell in row)
        print("".join(cell.rjust(16) for cell in cells))
    print()
