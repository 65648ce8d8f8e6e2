"""A broker that is slower than the worker is reported, and changes no share."""

from __future__ import annotations

import pytest

from tests.brokers import Space
from tests.fairness.sample import weighed
from tests.fairness.ten_queues import AT_COST_4, QUANTA, a_round, messages
from tests.publishing import publish
from tests.shares import max_share_error, while_backlogged
from tests.workers import StartWorker

pytestmark = pytest.mark.newest


def test_empty_while_the_refill_was_on_its_way(
    rabbitmq_space: Space, start_worker: StartWorker
) -> None:
    published = messages(18)
    publish(rabbitmq_space.url, published, persistent=False)
    tiny = {name: {"quantum": quantum, "prefetch": 2} for name, quantum in QUANTA.items()}
    worker = start_worker(rabbitmq_space, queues=QUANTA, conf=AT_COST_4 | {"fair_queues": tiny})

    worker.records.started.wait(14 * a_round(), timeout=100)
    starts = while_backlogged(worker.records.started.read(), published, warm_up=a_round())

    # Who waits for a refill is served later in its round, which the edges of the sample count as up
    # to 1.5 %. One visit that is lost would count as 8 %.
    assert max_share_error(weighed(starts[: 12 * a_round()], a_round()), QUANTA) <= 0.03
    assert worker.inspect("stats")["fair"]["p9"]["starved"] > 0
