"""`confirm`: no start before the broker has answered, though every write succeeds."""

from __future__ import annotations

import time
from contextlib import suppress

from tests.brokers import Space
from tests.faults.acts.network import BLIND
from tests.faults.proxy import Proxy
from tests.publishing import publish
from tests.workers import StartWorker


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
