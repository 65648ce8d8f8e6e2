"""Shares hold again on a new connection, after the broker was killed in the middle of its work."""

from __future__ import annotations

import pytest

from tests import shares
from tests.brokers import Space
from tests.fairness.sample import EDGE, weighed
from tests.fairness.ten_queues import AT_COST_4, QUANTA, a_round, messages
from tests.publishing import publish
from tests.workers import BACK_WITHIN, StartWorker

pytestmark = pytest.mark.newest

LIMIT = {"rabbitmq": 0.01, "redis": 0.02}
BEFORE, WARM_UP, ROUNDS, RESERVE = 10, 10, 40, 20


@pytest.mark.wide
def test_shares_after_the_brokers_return(own_space: Space, start_worker: StartWorker) -> None:
    publish(own_space.url, messages(BEFORE + WARM_UP + ROUNDS + RESERVE))
    worker = start_worker(own_space, queues=QUANTA, conf=AT_COST_4)
    worker.records.started.wait(BEFORE * a_round())

    own_space.server.kill()
    own_space.server.restart()
    started = len(worker.records.started)

    worker.records.started.wait(started + 1, BACK_WITHIN)
    starts = worker.records.started.wait(started + (WARM_UP + ROUNDS + EDGE) * a_round())
    sample = starts[started + WARM_UP * a_round() :][: (ROUNDS + EDGE) * a_round()]
    got = weighed(sample, EDGE * a_round())
    print(f"share error {shares.max_share_error(got, QUANTA):.3%}")
    assert shares.max_share_error(got, QUANTA) <= LIMIT[own_space.kind]
