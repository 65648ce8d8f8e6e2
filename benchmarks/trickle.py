"""What one queue that trickles costs a worker of nine that are backlogged.

    python -m benchmarks.trickle [--json] [--rounds N] [--seconds S]

Fair workers (solo, RabbitMQ) consume nine backlogged queues, and every second one a tenth besides,
into which come 20 messages a second. In the others' turns as many are published into a queue of
their broker that they do not consume, so that publishing costs all the same. As in `throughput`
they live at the same time and run in turns. Two processes that do the very same differ by up to a
tenth, by where their memory happens to lie: so there are several of each kind, and the ratio is
that of their sums, the median of those within the rounds. Target: at least 0.95.
"""

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from threading import Event, Thread
from typing import Any

from benchmarks.contestant import Contestant, contestant
from benchmarks.progress import Progress
from benchmarks.turns import serving, take_turns
from tests.brokers import RabbitMQ

BACKLOGGED = {f"p{number}": 1 for number in range(9)}
TENTH = "p9"
RATE = 20
WARM_UP = 500
EACH = 4
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


def measure(server: RabbitMQ, rounds: int, seconds: float, progress: Progress) -> dict[str, Any]:
    kinds = {"none": BACKLOGGED, "trickle": BACKLOGGED | {TENTH: 0}}
    with ExitStack() as stack:
        everybody = [
            stack.enter_context(contestant(name, server, consumed))
            for _ in range(EACH)
            for name, consumed in kinds.items()
        ]
        take_turns(everybody, rounds, seconds, WARM_UP, progress, "trickle", trickle)
    of = {name: [each for each in everybody if each.name == name] for name in kinds}
    return {
        name: {
            "ratio": median(
                speed(each, number) / speed(of["none"], number) for number in range(rounds)
            ),
            "speeds": [median(run.speed for run in worker.runs) for worker in each],
            "cpu": [median(run.cost for run in worker.runs) for worker in each],
        }
        for name, each in of.items()
    }


def speed(workers: list[Contestant], number: int) -> float:
    """Return tasks per second in a round, of all of them."""
    return sum(worker.runs[number].speed for worker in workers)


def show(found: dict[str, Any]) -> None:
    print("tasks per second of each worker; microseconds of its CPU per task")
    for name, of in found.items():
        speeds = " ".join(f"{value:>6.0f}" for value in of["speeds"])
        cpu = " ".join(f"{value * 1e6:>4.0f}" for value in of["cpu"])
        print(f"{name:<8} {speeds}   {cpu}")
    ratio = found["trickle"]["ratio"]
    verdict = "within" if ratio >= TARGET else "beyond"
    print(f"one trickle queue against none {ratio:.2f}: {verdict} the target of {TARGET}")


def main() -> None:
    parser = ArgumentParser(prog="python -m benchmarks.trickle", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--rounds", type=int, default=7, help="of turns (default: 7)")
    parser.add_argument("--seconds", type=float, default=0.6, help="a turn (default: 0.6)")
    args = parser.parse_args()
    progress = Progress(args.rounds)
    with serving(RabbitMQ()) as server:
        found = measure(server, args.rounds, args.seconds, progress)
    progress.close()
    print(json.dumps(found)) if args.json else show(found)


if __name__ == "__main__":
    main()
