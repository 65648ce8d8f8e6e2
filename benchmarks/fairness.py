"""Share error by the work of a task: the sources' policy against this worker's.

    python -m benchmarks.fairness [--json]
    python -m benchmarks.fairness --messages 40000

The sources' workload on RabbitMQ: ten queues of equal backlog, quanta 4 to 40, cost 4 a message,
one process. A share error is max |share / target - 1| over the queues; the sample has soft edges of
one round (see tests/fairness/sample.py), so that where it is cut does not matter.

The sources' consumer does nothing but spin, so that 1 µs of work left 20,000 messages a second to
the broker, which was too many; a task costs Celery some hundred microseconds whatever its work.

With --messages, the published experiment: so many messages in each queue, and of the first half of
all, when every queue has a backlog still, the share of each but for the first tenth of the starts.
Published were the shares of 40,000 messages a queue, with 100 µs of work a task and with 1 µs.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.progress import Progress
from tests import shares
from tests.apps.recorder import Record
from tests.brokers import RabbitMQ
from tests.fairness.sample import EDGE, weighed
from tests.fairness.ten_queues import AT_COST_4, QUANTA, a_round
from tests.publishing import publish
from tests.workers import starting_workers

WORK = (0, 1, 10, 100, 1000)
PUBLISHED_WORK = (100, 1)
WARM_UP, ROUNDS = 20, 80
WINDOWS = (10, 50)
STARTS = (WARM_UP + ROUNDS + 1) * a_round()


def policies() -> dict[str, dict[str, Any]]:
    """The options of each policy's worker."""
    made = {}
    for window in WINDOWS:
        queues = {name: {"quantum": q, "prefetch": window} for name, q in QUANTA.items()}
        conf = AT_COST_4 | {"fair_queues": queues}
        made[f"sources, {window}"] = {"app": "benchmarks.sources_policy", "conf": conf}
    return made | {"ours": {"conf": AT_COST_4}}


def starts_of(
    server: RabbitMQ, work: int, options: dict[str, Any], messages: int, count: int
) -> list[Record]:
    """The first starts of one worker on a backlog of its own, so many messages in each queue."""
    space = server.space()
    publish(space.url, dict.fromkeys(QUANTA, messages), "spin", [work], persistent=False)
    with TemporaryDirectory() as folder, starting_workers(Path(folder)) as start:
        started = start(space, queues=QUANTA, **options).records.started
        starts = sorted(started.wait(count, timeout=120 + count / 100))[:count]
    server.delete_vhost(space.place)
    return starts


def speed(starts: Sequence[Record]) -> float:
    """Tasks per second."""
    return len(starts) / (starts[-1].monotonic_ns - starts[0].monotonic_ns) * 1e9


def measure(server: RabbitMQ, work: int, options: dict[str, Any]) -> dict[str, float]:
    """Share error, ratio and speed of one worker."""
    starts = starts_of(server, work, options, STARTS * 10 // 55 + 10 * a_round(), STARTS)
    sample = starts[WARM_UP * a_round() :]
    got = weighed(sample, EDGE * a_round())
    return {
        "error": shares.max_share_error(got, QUANTA),
        "ratio": shares.ratio(got),
        "speed": speed(sample),
    }


def measure_published(server: RabbitMQ, work: int, messages: int) -> dict[str, Any]:
    """The share of each queue, largest error, ratio, Jain's index and speed, to half of all."""
    starts = starts_of(server, work, {"conf": AT_COST_4}, messages, len(QUANTA) * messages // 2)
    sample = starts[len(starts) // 10 :]
    got = shares.amounts(sample)
    return {
        "shares": {queue: got[queue] / len(sample) for queue in QUANTA},
        "error": shares.max_share_error(got, QUANTA),
        "ratio": shares.ratio(got),
        "jain": shares.jain_index(got, QUANTA),
        "speed": speed(starts),
    }


def show(figures: dict[int, dict[str, dict[str, float]]]) -> None:
    print(f"share error, p9/p0 (ideal 10), tasks/s; {ROUNDS} rounds of {a_round()} messages")
    print(f"{'work':>8}" + "".join(f"{policy:>25}" for policy in policies()))
    for work, row in figures.items():
        cells = (f"{c['error']:>9.2%} {c['ratio']:>6.2f} {c['speed']:>8.0f}" for c in row.values())
        print(f"{work:>5} µs" + "".join(cells))


def show_published(figures: dict[int, dict[str, Any]]) -> None:
    print(f"{'queue':<26}{'target':>9}" + "".join(f"{work:>6} µs" for work in figures))
    for queue, quantum in QUANTA.items():
        cells = "".join(f"{row['shares'][queue]:>9.2%}" for row in figures.values())
        print(f"{queue:<26}{quantum / sum(QUANTA.values()):>9.2%}{cells}")
    for name, key, form in (
        ("p9/p0 (ideal 10)", "ratio", ".2f"),
        ("largest share error", "error", ".2%"),
        ("Jain index", "jain", ".4f"),
        ("tasks/s", "speed", ".0f"),
    ):
        print(f"{name:<35}" + "".join(f"{row[key]:>9{form}}" for row in figures.values()))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fairness", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--messages", type=int, help="the published experiment, at this size")
    options = parser.parse_args()
    server = RabbitMQ()
    try:
        server.start()
        server.wait_ready()
        if options.messages:
            published = {
                work: measure_published(server, work, options.messages) for work in PUBLISHED_WORK
            }
            print(json.dumps(published)) if options.json else show_published(published)
        else:
            figures = compare(server)
            print(json.dumps(figures)) if options.json else show(figures)
    finally:
        server.end()


def compare(server: RabbitMQ) -> dict[int, dict[str, dict[str, float]]]:
    """The figures of all policies, by work."""
    progress = Progress(len(WORK) * len(policies()))
    figures: dict[int, dict[str, dict[str, float]]] = {work: {} for work in WORK}
    for work in WORK:
        for policy, options in policies().items():
            figures[work][policy] = measure(server, work, options)
            progress.step(f"{work} µs, {policy}")
    progress.close()
    return figures


if __name__ == "__main__":
    main()
