"""A connection whose loss shows in an acknowledgement is given up, like one that cannot be read."""

from __future__ import annotations

from pathlib import Path

from tests.brokers import RabbitMQ
from tests.faults.accounting import Account
from tests.faults.scene import QUEUES, Scene
from tests.integration.gate import Gate
from tests.publishing import publish


def test_connection_is_cut_while_a_solo_worker_works(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    """It does not look at its socket meanwhile, and acknowledges the next message first."""
    scene, gates = Scene(rabbitmq.space(), tmp_path, pool="solo", concurrency=1), (Gate(), Gate())
    url, started = scene.space.url, scene.records.started
    try:
        scene.ready()
        # What comes while the first is held waits in the socket, then in the buffer.
        first = publish(url, {QUEUES[0]: 1}, "before", [str(gates[0].path)]).all()
        started.wait_ids(first)
        second = publish(url, {QUEUES[0]: 1}, "before", [str(gates[1].path)]).all()
        ids = publish(url, {QUEUES[0]: 1}, "before").all()
        gates[0].open()
        started.wait_ids(second)
        scene.proxy.cut()
        gates[1].open()

        scene.settle()

        Account.of([*first, *second, *ids], scene.records, scene.dead_letters()).check()
    finally:
        for gate in gates:
            gate.open()
        scene.end()
