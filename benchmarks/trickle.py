"""What one queue that trickles costs a worker of nine that are backlogged.

    python -m benchmarks.trickle [--json] [--rounds N] [--seconds S]

Two fair workers (solo, RabbitMQ) consume nine backlogged queues, and one of them a tenth besides,
into which come 20 messages a second. In the other's turns as many are published into a queue of its
broker that it does not consume, so that publishing costs both the same. As in `throughput` they
live at the same time and run in turns, and the ratio is the median of those within the rounds.
Target: at least 0.95.
"""

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Thread
from typing import Any

from benchmarks.contestant import Contestant, contestant
from benchmarks.progress import Progress
from benchmarks.turns import row, serving, show_speeds, take_turns
from tests.brokers import RabbitMQ

BACKLOGGED = {f"p{number}": 1 for number in range(9)}
TENTH = "p9"
RATE = 20
WARM_UP = 500
TARGET = 0.95


@contextmanager
def trickle(each: Contestant) -> Iterator[None]:
    """Publish to the tenth queue of a contestant's broker, which it may consume or not."""
    over = Event()

    def publish() -> None:
        client = each.worker.client
        while not over.wait(1 / RATE):
            client.send_task("plain", (0,), queue=TENTH)

    publisher = Thread(target=publish)
    publisher.start()
    try:
        yield
    finally:
        over.set()
        publisher.join()


def measure(server: RabbitMQ, rounds: int, seconds: float, progress: Progress) -> list[Any]:
    queues = {"none": BACKLOGGED, "trickle": BACKLOGGED | {TENTH: 0}}
    with ExitStack() as stack:
        everybody = [
            stack.enter_context(contestant(name, server, consumed))
            for name, consumed in queues.items()
        ]
        take_turns(everybody, rounds, seconds, WARM_UP, progress, "trickle", trickle)
    return [row(server.kind, "solo 1", each, everybody[0]) for each in everybody]


def show(rows: list[Any]) -> None:
    show_speeds(rows)
    ratio = rows[-1]["ratio"]
    verdict = "within" if ratio >= TARGET else "beyond"
    print(f"one trickle queue against none {ratio:.2f}: {verdict} the target of {TARGET}")


def main() -> None:
    parser = ArgumentParser(prog="python -m benchmarks.trickle", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--rounds", type=int, default=7, help="of turns (default: 7)")
    parser.add_argument("--seconds", type=float, default=0.8, help="a turn (default: 0.8)")
    args = parser.parse_args()
    progress = Progress(args.rounds)
    with serving(RabbitMQ()) as server:
        rows = measure(server, args.rounds, args.seconds, progress)
    progress.close()
    print(json.dumps(rows)) if args.json else show(rows)


if __name__ == "__main__":
    main()
