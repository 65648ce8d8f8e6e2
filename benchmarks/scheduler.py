"""What one decision of the scheduler (`choose` and `serve`) costs, by the number of queues.

    python -m benchmarks.scheduler [--json]

All queues are backlogged throughout. In the workload *walk* every quantum covers some messages, as
usual; in *skip* quanta lie a hundred times or more below the cost, so that rounds are skipped all
the time; in *trickle* every message is its queue's only one. Target: flat, at most 2 µs.
"""

import argparse
import json
import random
from collections.abc import Callable
from statistics import median
from time import process_time

from celery_fair.core.dwrr import DeficitRoundRobin, Flow

QUEUES = (10, 100, 1_000, 10_000)
DECISIONS = 100_000
REPETITIONS = 7
TARGET = 2e-6


def scheduler(quanta: list[float]) -> DeficitRoundRobin:
    made = DeficitRoundRobin()
    for number, quantum in enumerate(quanta):
        made.offer(Flow(f"q{number}", quantum), 4.0)
    return made


def backlogged(quanta: list[float]) -> float:
    """Seconds per decision while every queue always has a next message."""
    fair = scheduler(quanta)
    costs = [random.uniform(3, 5) for _ in range(DECISIONS)]
    choose, serve = fair.choose, fair.serve
    began = process_time()
    for cost in costs:
        flow = choose(0.0, 0.0)
        serve(flow, flow.head, cost)
    return (process_time() - began) / DECISIONS


def trickling(quanta: list[float]) -> float:
    """Seconds per decision, and offer, while every message leaves its queue empty."""
    fair = scheduler(quanta)
    choose, serve, offer = fair.choose, fair.serve, fair.offer
    began = process_time()
    for _ in range(DECISIONS):
        flow = choose(0.0, 0.0)
        serve(flow, 4.0, None)
        offer(flow, 4.0)
    return (process_time() - began) / DECISIONS


WORKLOADS: dict[str, tuple[Callable[[list[float]], float], Callable[[int], float]]] = {
    "walk": (backlogged, lambda number: 4.0 * (1 + number % 10)),
    "skip": (backlogged, lambda number: 0.004 * (1 + number % 10)),
    "trickle": (trickling, lambda number: 4.0 * (1 + number % 10)),
}


def measure(queues: int) -> dict[str, float]:
    """The median of several repetitions, by workload, in seconds."""
    return {
        name: median(run([quantum(n) for n in range(queues)]) for _ in range(REPETITIONS))
        for name, (run, quantum) in WORKLOADS.items()
    }


def show(figures: dict[int, dict[str, float]]) -> None:
    print(f"microseconds per decision; median of {REPETITIONS} x {DECISIONS:,} decisions")
    print(f"{'queues':>8}" + "".join(f"{name:>10}" for name in WORKLOADS))
    for queues, by_workload in figures.items():
        print(f"{queues:>8,}" + "".join(f"{by_workload[name] * 1e6:>10.2f}" for name in WORKLOADS))
    most = max(max(by_workload.values()) for by_workload in figures.values())
    verdict = "within" if most <= TARGET else "beyond"
    print(f"at most {most * 1e6:.2f}: {verdict} the target of {TARGET * 1e6:.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scheduler", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    as_json = parser.parse_args().json
    random.seed(1)
    figures = {queues: measure(queues) for queues in QUEUES}
    print(json.dumps(figures)) if as_json else show(figures)


if __name__ == "__main__":
    main()
