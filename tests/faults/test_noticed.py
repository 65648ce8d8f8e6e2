"""A connection whose loss shows in an acknowledgement is given up, like one that cannot be read."""

from __future__ import annotations

from pathlib import Path

from tests.brokers import RabbitMQ
from tests.faults.accounting import NOTHING
from tests.faults.scene import QUEUES, Scene
from tests.integration.depths import left
from tests.integration.gate import Gate
from tests.waiting import wait_equal


def test_connection_is_cut_while_a_solo_worker_works(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    """It does not look at its socket meanwhile, and acknowledges the next message first."""
    scene, gates = Scene(rabbitmq.space(), tmp_path, pool="solo", concurrency=1), (Gate(), Gate())
    started = scene.records.started
    try:
        scene.ready()
        # What comes while the first is held waits in the socket, then in the buffer.
        first = scene.publish(1, "before", str(gates[0].path), QUEUES[0])
        started.wait_ids(first)
        second = scene.publish(1, "before", str(gates[1].path), QUEUES[0])
        ids = scene.publish(1, "before", queue=QUEUES[0])
        gates[0].open()
        started.wait_ids(second)
        wait_equal(lambda: left(scene.space, QUEUES[0]), len(ids))  # acknowledgements have arrived
        scene.proxy.cut()
        gates[1].open()

        scene.settle()

        # What could not be acknowledged does not start, and is a dead letter when it comes again.
        scene.account([*first, *second, *ids]).check(NOTHING._replace(dead_started=0))
    finally:
        for gate in gates:
            gate.open()
        scene.end()
