"""A broker that is slower than the worker is reported, and changes no share."""

from __future__ import annotations

import pytest

from tests.brokers import Space
from tests.fairness.sample import EDGE, weighed
from tests.fairness.ten_queues import AT_COST_4, QUANTA, a_round, messages
from tests.publishing import publish
from tests.shares import max_share_error, share_errors, while_backlogged
from tests.workers import StartWorker

pytestmark = pytest.mark.newest


ROUNDS, RESERVE = 40, 2
MOST_ERROR = 0.01


def test_empty_while_the_refill_was_on_its_way(
    rabbitmq_space: Space, start_worker: StartWorker
) -> None:
    """Who waits for a refill is served later in its round, but in that round.

    Later at one edge of the sample than at the other, it counts as some of a visit more or less.
    """
    published = messages(1 + ROUNDS + EDGE + RESERVE)
    publish(rabbitmq_space.url, published, persistent=False)
    tiny = {name: {"quantum": quantum, "prefetch": 2} for name, quantum in QUANTA.items()}
    worker = start_worker(rabbitmq_space, queues=QUANTA, conf=AT_COST_4 | {"fair_queues": tiny})

    wanted = (ROUNDS + EDGE) * a_round()
    worker.records.started.wait(a_round() + wanted, timeout=100)
    starts = while_backlogged(worker.records.started.read(), published, warm_up=a_round())
    assert len(starts) >= wanted, "a queue ran out before its time"

    got = weighed(starts[:wanted], EDGE * a_round())
    print(f"share error {max_share_error(got, QUANTA):.3%}")
    assert max_share_error(got, QUANTA) <= MOST_ERROR, share_errors(got, QUANTA)
    assert worker.inspect("stats")["fair"]["p9"]["starved"] > 0
