"""Ten backlogged queues: each gets its share, on every broker and pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from tests import shares
from tests.apps.recorder import Record
from tests.brokers import Space
from tests.fairness.sample import EDGE, weighed
from tests.fairness.ten_queues import AT_COST_4, FAIR, QUANTA, a_round, messages
from tests.publishing import publish
from tests.workers import StartWorker

pytestmark = pytest.mark.newest

POOLS = {"solo": 1, "threads": 4, "prefork": 2}
LIMIT = {"rabbitmq": 0.01, "redis": 0.02}

WARM_UP, ROUNDS, RESERVE = 20, 40, 6


def assert_fair(starts: Sequence[Record], edge: int, limit: float) -> None:
    got = weighed(starts, edge)
    error, ratio = shares.max_share_error(got, QUANTA), shares.ratio(got)
    print(f"share error {error:.3%}, p9/p0 {ratio:.2f}")
    assert error <= limit, shares.share_errors(got, QUANTA)
    assert 10 - 10 * limit <= ratio <= 10 + 10 * limit


@pytest.mark.parametrize(
    "pool", ["solo", pytest.param("threads", marks=pytest.mark.wide), "prefork"]
)
def test_tasks_of_no_work_and_of_100_microseconds(
    space: Space, start_worker: StartWorker, pool: str
) -> None:
    idle, busy = messages(WARM_UP + ROUNDS + EDGE), messages(ROUNDS + EDGE + RESERVE)
    publish(space.url, idle, "noop", persistent=False)
    publish(space.url, busy, "spin", [100], persistent=False)
    worker = start_worker(space, pool=pool, concurrency=POOLS[pool], queues=QUANTA, conf=AT_COST_4)

    wanted = (WARM_UP + 2 * (ROUNDS + EDGE)) * a_round()
    worker.records.started.wait(wanted, timeout=100)
    starts = shares.while_backlogged(
        worker.records.started.read(),
        Counter(idle) + Counter(busy),
        warm_up=WARM_UP * a_round(),
    )

    half = (ROUNDS + EDGE) * a_round()
    assert len(starts) >= 2 * half, "a queue ran out before its time"
    assert_fair(starts[:half], EDGE * a_round(), LIMIT[space.kind])
    assert_fair(starts[half : 2 * half], EDGE * a_round(), LIMIT[space.kind])


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_cost_1_on_both_types_of_queues(
    rabbitmq_space: Space, start_worker: StartWorker, queue_type: str
) -> None:
    size, warm_up, rounds = a_round(cost=1), 8, 20
    arguments = {"x-queue-type": queue_type}
    published = messages(warm_up + rounds + EDGE + 2, cost=1)
    publish(rabbitmq_space.url, published, persistent=False, queue_arguments=arguments)
    worker = start_worker(rabbitmq_space, queues=QUANTA, queue_arguments=arguments, conf=FAIR)

    worker.records.started.wait((warm_up + rounds + EDGE) * size, timeout=100)
    starts = shares.while_backlogged(
        worker.records.started.read(), published, warm_up=warm_up * size
    )

    wanted = (rounds + EDGE) * size
    assert len(starts) >= wanted, "a queue ran out before its time"
    assert_fair(starts[:wanted], EDGE * size, LIMIT["rabbitmq"])
