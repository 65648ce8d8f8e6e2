"""Contestants in turns, and what the scripts that let them have in common on the command line."""

from argparse import ArgumentParser
from collections.abc import Collection

from benchmarks.contestant import Contestant
from benchmarks.progress import Progress

__all__ = ["arguments", "pairs", "take_turns"]

_BACKLOG_SECONDS_AT = 6000
"""Tasks per second that no contestant reaches: the backlog is sized by it."""


def arguments(prog: str, doc: str | None, every: Collection[str]) -> ArgumentParser:
    """Return a parser; `every` are the pairs of broker and pool that there are."""
    parser = ArgumentParser(prog=f"python -m {prog}", description=doc)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--rounds", type=int, default=7, help="of turns (default: 7)")
    parser.add_argument("--seconds", type=float, default=0.8, help="a turn (default: 0.8)")
    parser.add_argument("what", nargs="*", metavar="BROKER:POOL", help=f"of {', '.join(every)}")
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
) -> None:
    """Let each work for so many tasks first, and then all in turns, now this way, now that way."""
    for each in everybody:
        each.refill(warm_up + 500)
        each.warm_up(warm_up)
    for number in range(rounds):
        for each in everybody if number % 2 else reversed(everybody):
            each.refill(int(_BACKLOG_SECONDS_AT * seconds))
            each.run(seconds)
        progress.step(label)
