"""A thousand backlogged queues on one worker.

A round serves 1,210 messages; few rounds fit into a test, and while windows
grow the queues take other turns within each. So the sample is cut where the
rounds begin, which with one process is known to the message.
"""

from __future__ import annotations

import pytest

from tests import shares
from tests.brokers import Space
from tests.fairness.ten_queues import FAIR, QUANTA
from tests.publishing import publish
from tests.workers import StartWorker

pytestmark = pytest.mark.newest

OTHERS = [f"q{number}" for number in range(990)]  # of the default quantum, 1
WEIGHTS = QUANTA | dict.fromkeys(OTHERS, 1)
A_ROUND = sum(WEIGHTS.values())
WARM_UP, ROUNDS, RESERVE = 2, 5, 1


@pytest.mark.wide
@pytest.mark.timeout(180)
def test_thousand_queues(rabbitmq_space: Space, start_worker: StartWorker) -> None:
    totals = {name: (WARM_UP + ROUNDS + RESERVE) * weight for name, weight in WEIGHTS.items()}
    publish(rabbitmq_space.url, totals, persistent=False)
    worker = start_worker(rabbitmq_space, wait=False, queues=list(WEIGHTS), conf=FAIR)
    worker.wait_ready(timeout=90)

    worker.records.started.wait((WARM_UP + ROUNDS) * A_ROUND, timeout=120)
    starts = shares.while_backlogged(
        worker.records.started.read(), totals, warm_up=WARM_UP * A_ROUND
    )
    assert len(starts) >= ROUNDS * A_ROUND, "a queue ran out before its time"

    got = shares.amounts(starts[: ROUNDS * A_ROUND])
    errors = shares.share_errors(got, WEIGHTS)
    print(f"share error {max(map(abs, errors.values())):.3%}")
    assert all(abs(errors[name]) <= 0.02 for name in QUANTA), errors
    assert all(got[name] >= ROUNDS - 1 for name in OTHERS)
