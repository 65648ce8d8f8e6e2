"""Messages that cost differently: what is shared is cost, not messages."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests import shares
from tests.brokers import Space
from tests.fairness.sample import weighed
from tests.publishing import publish
from tests.workers import StartWorker

pytestmark = pytest.mark.newest

QUANTA = {"light": 10, "mixed": 20, "heavy": 10, "announced": 40}
COSTS: Mapping[str, tuple[int, ...]] = {
    "light": (1,),
    "mixed": (1, 2, 7),
    "heavy": (25,),  # more than its quantum: it is served in two rounds of five
    "announced": (8,),  # by a header
}
FAIR = {
    "fair_queues": {name: {"quantum": quantum} for name, quantum in QUANTA.items()},
    "fair_cost": "tests.fairness.costs.announced",
}

A_ROUND = 10 + 6 + 0.4 + 5
"""Messages that a round serves, on average."""
WARM_UP, ROUNDS, EDGE, RESERVE = 30, 150, 10, 20
BATCHES = 10


def publish_all(url: str, rounds: int) -> tuple[dict[str, int], dict[str, float]]:
    """Publish what so many rounds serve; return the totals, and the cost of each task."""
    totals: dict[str, int] = dict.fromkeys(QUANTA, 0)
    cost_of: dict[str, float] = {}
    for _ in range(BATCHES):
        for queue, costs in COSTS.items():
            number = rounds * QUANTA[queue] // sum(costs) // BATCHES + 1
            for cost in costs:
                ids = _publish_one(url, queue, number, cost)
                totals[queue] += number
                cost_of |= dict.fromkeys(ids, cost)
    return totals, cost_of


def _publish_one(url: str, queue: str, number: int, cost: int) -> list[str]:
    if queue == "announced":
        return publish(url, {queue: number}, time_limit=cost, persistent=False).all()
    return publish(url, {queue: number}, "spin", [cost], persistent=False).all()


@pytest.mark.either_broker
def test_shares_of_cost(space: Space, start_worker: StartWorker) -> None:
    totals, cost_of = publish_all(space.url, WARM_UP + ROUNDS + EDGE + RESERVE)
    worker = start_worker(space, queues=QUANTA, conf=FAIR)

    worker.records.started.wait(int((WARM_UP + ROUNDS + EDGE) * A_ROUND), timeout=100)
    starts = shares.while_backlogged(
        worker.records.started.read(), totals, warm_up=int(WARM_UP * A_ROUND)
    )
    assert len(starts) >= ROUNDS * A_ROUND, "a queue ran out before its time"

    got = weighed(starts, int(EDGE * A_ROUND), lambda record: cost_of[record.id])
    counts = shares.amounts(starts)
    print(f"share error {shares.max_share_error(got, QUANTA):.3%}")
    assert shares.max_share_error(got, QUANTA) <= 0.02, shares.share_errors(got, QUANTA)
    assert shares.max_share_error(counts, QUANTA) > 0.5
