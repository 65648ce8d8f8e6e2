"""Share error by the work of a task: the sources' policy against this worker's.

    python -m benchmarks.fairness [--json]

The sources' workload on RabbitMQ: ten queues of equal backlog, quanta 4 to 40, cost 4 a message,
one process. A share error is max |share / target - 1| over the queues; the sample has soft edges of
one round (see tests/fairness/sample.py), so that where it is cut does not matter.

The sources' consumer does nothing but spin, so that 1 µs of work left 20,000 messages a second to
the broker, which was too many; a task costs Celery some hundred microseconds whatever its work.
"""

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.progress import Progress
from tests import shares
from tests.brokers import RabbitMQ
from tests.fairness.sample import EDGE, weighed
from tests.fairness.ten_queues import AT_COST_4, QUANTA, a_round
from tests.publishing import publish
from tests.workers import starting_workers

WORK = (0, 1, 10, 100, 1000)
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


def measure(server: RabbitMQ, work: int, options: dict[str, Any]) -> dict[str, float]:
    """Share error, ratio and speed of one worker on a backlog of its own."""
    space = server.space()
    backlog = dict.fromkeys(QUANTA, STARTS * 10 // 55 + 10 * a_round())
    publish(space.url, backlog, "spin", [work], persistent=False)
    with TemporaryDirectory() as folder, starting_workers(Path(folder)) as start:
        started = start(space, queues=QUANTA, **options).records.started
        starts = sorted(started.wait(STARTS, timeout=120))[:STARTS]
    server.delete_vhost(space.place)
    sample = starts[WARM_UP * a_round() :]
    got = weighed(sample, EDGE * a_round())
    seconds = (sample[-1].monotonic_ns - sample[0].monotonic_ns) / 1e9
    return {
        "error": shares.max_share_error(got, QUANTA),
        "ratio": shares.ratio(got),
        "speed": len(sample) / seconds,
    }


def show(figures: dict[int, dict[str, dict[str, float]]]) -> None:
    print(f"share error, p9/p0 (ideal 10), tasks/s; {ROUNDS} rounds of {a_round()} messages")
    print(f"{'work':>8}" + "".join(f"{policy:>25}" for policy in policies()))
    for work, row in figures.items():
        cells = (f"{c['error']:>9.2%} {c['ratio']:>6.2f} {c['speed']:>8.0f}" for c in row.values())
        print(f"{work:>5} µs" + "".join(cells))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fairness", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    as_json = parser.parse_args().json
    progress = Progress(len(WORK) * len(policies()))
    server = RabbitMQ()
    try:
        server.start()
        server.wait_ready()
        figures: dict[int, dict[str, dict[str, float]]] = {work: {} for work in WORK}
        for work in WORK:
            for policy, options in policies().items():
                figures[work][policy] = measure(server, work, options)
                progress.step(f"{work} µs, {policy}")
    finally:
        server.end()
    progress.close()
    print(json.dumps(figures)) if as_json else show(figures)


if __name__ == "__main__":
    main()
