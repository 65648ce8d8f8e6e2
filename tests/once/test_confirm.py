"""`confirm`: no start before the broker has answered, though every write succeeds."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest

from tests.brokers import RabbitMQ, Space
from tests.faults.acts.network import BLIND
from tests.faults.proxy import Proxy
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import StartWorker

CLOSE = (
    '[rabbit_networking:close_connection(element(6, Each), "shutdown")'
    ' || Each <- rabbit_connection_tracking:list(<<"{}">>)].'
)
"""All connections to a virtual host."""


def test_acknowledgement_is_on_its_way(rabbitmq_space: Space, start_worker: StartWorker) -> None:
    with Proxy(rabbitmq_space) as proxy:
        worker = start_worker(proxy.url, app="tests.apps.once", queues=["a"])
        trap = proxy.on("ack", action="hold")
        ids = publish(rabbitmq_space.url, {"a": 1}, "confirmed").all()
        trap.wait()
        with suppress(TimeoutError):  # that nothing happens has no end to be waited for
            worker.records.started.wait_ids(ids, BLIND)
        released = time.monotonic_ns()
        proxy.release()

        (start,) = worker.records.started.wait_once(ids)

        assert start.monotonic_ns > released


@pytest.mark.parametrize(
    "conf",
    [{"fair_queues": {"a": {"fetch": "pull"}}}, {"fair_keys": {"a": {}}}],
    ids=["pulled", "keyed"],
)
def test_broker_closes_the_connection_amid_the_answer(
    rabbitmq: RabbitMQ, rabbitmq_space: Space, start_worker: StartWorker, conf: dict[str, Any]
) -> None:
    """As one does that is shut down: the worker connects again, whatever it was about to ask."""
    space = rabbitmq_space
    with Proxy(space) as proxy:
        worker = start_worker(
            proxy.url, app="tests.apps.once", pool="threads", queues=["a"], conf=conf
        )
        trap = proxy.on("ack", action="hold")
        publish(space.url, {"a": 1}, "confirmed")
        trap.wait()
        rabbitmq.control("eval", CLOSE.format(space.place))
        wait_equal(lambda: "could not be acknowledged" in worker.log(), True)
        proxy.release()
        worker.records.finished.wait_once(publish(space.url, {"a": 1}, "plain").all())
        assert worker.stop() == 0
