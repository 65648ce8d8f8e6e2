"""Give workers thousands of hostile messages, on each broker and by each way of working.

    python -m tests.hostile --messages 10000 --seed 7
    python -m tests.hostile --broker redis --way "prefork, fast" --messages 500 --seed 7

Exits with 1 if a worker ended, a good message did not start, or a hostile one started twice, became
two dead letters, or is gone without a word.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import pytest

from tests.brokers import RabbitMQ, RedisServer
from tests.conftest import KINDS, running
from tests.hostile.messages import hostile
from tests.hostile.run import WAYS, Result, play
from tests.workers import starting_workers

SHOWN = 20
"""Broken laws of a worker."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.hostile", description=__doc__.split("\n")[0])
    parser.add_argument("--messages", type=int, default=10_000, help="on each broker (%(default)s)")
    parser.add_argument("--seed", type=int, help="of the messages")
    parser.add_argument("--broker", choices=KINDS, help="only on this one")
    parser.add_argument("--way", default="", help="only ways whose name contains this")
    parser.add_argument(
        "--seconds", type=float, default=1800, help="start no worker later (%(default)s)"
    )
    return parser.parse_args()


def main() -> int:
    options = arguments()
    seed = time.time_ns() % 1_000_000 if options.seed is None else options.seed
    kinds = [options.broker] if options.broker else KINDS
    ways = [way for way in WAYS if options.way in str(way)]
    each = options.messages // len(ways)
    deadline = time.monotonic() + options.seconds
    broken = 0
    print(f"seed {seed}: {each} messages for each of {len(kinds) * len(ways)} workers")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hostile-")))
        books = running(RedisServer())
        stack.callback(books.close)
        ledger = next(books)
        for kind in kinds:
            started = running(RabbitMQ() if kind == "rabbitmq" else RedisServer())
            stack.callback(started.close)
            server = next(started)
            for place, way in enumerate(ways):
                if time.monotonic() > deadline:
                    sys.exit("the time is over")
                messages = list(islice(hostile(kind, seed, place * each), each))
                place_of_its_own = folder / f"{kind}{place}"
                place_of_its_own.mkdir()
                with starting_workers(place_of_its_own) as start:
                    url = ledger.space().url if place % 2 else ""
                    result = play(way, server.space(), messages, start, url)
                tell(f"{kind}, {way}", result)
                broken += len(result.broken)
    print(f"{broken} laws were broken" if broken else "no law was broken")
    return 1 if broken else 0


def tell(name: str, result: Result) -> None:
    counts = ", ".join(f"{count} {what}" for what, count in result.outcomes.most_common())
    print(f"{name}: {counts}; a lot {result.slowest:.1f} s at the most, all {result.seconds:.0f} s")
    for line in result.broken[:SHOWN]:
        print(f"  {line:.2000}")
    if len(result.broken) > SHOWN:
        print(f"  and {len(result.broken) - SHOWN} more", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except pytest.skip.Exception as missing:
        sys.exit(str(missing))
