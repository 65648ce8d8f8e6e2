"""A connection that is lost again while a worker sets up what it consumes on it."""

from __future__ import annotations

from tests.brokers import Space
from tests.faults.proxy import Proxy
from tests.publishing import publish
from tests.waiting import wait_for
from tests.workers import StartWorker

QUEUES = ["a", "b", "c"]
MANY = 1000


def test_a_connection_is_lost_while_a_channel_is_opened(
    rabbitmq_space: Space, start_worker: StartWorker
) -> None:
    """Whichever channel it is, the worker connects anew, and serves all its queues."""
    with Proxy(rabbitmq_space) as proxy:
        opened = proxy.on("open", nth=MANY)
        worker = start_worker(proxy.url, pool="threads", queues=QUEUES)
        channels = MANY - opened.nth
        assert channels > len(QUEUES)

        for nth in range(1, channels + 1):
            trap = proxy.on("open", nth=nth)
            proxy.cut()
            ids = publish(rabbitmq_space.url, dict.fromkeys(QUEUES, 1)).all()
            wait_for(trap.fired.is_set, 30, worker.log)
            worker.records.started.wait_ids(ids, 30)
        assert worker.stop() == 0
