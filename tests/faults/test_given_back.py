"""A message that was given back, though its confirmation was lost, is not given back twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokers import RabbitMQ
from tests.faults.scene import QUEUES, Scene
from tests.integration.gate import Gate


@pytest.mark.parametrize("when", ["before", "after"])
def test_confirmation_of_what_was_given_back_is_lost(
    rabbitmq: RabbitMQ, tmp_path: Path, when: str
) -> None:
    scene, gate = Scene(rabbitmq.space(), tmp_path), Gate()
    try:
        scene.ready()
        held = scene.publish(2, "before", str(gate.path), QUEUES[0])
        scene.records.started.wait_ids(held)
        ids = scene.publish(30, "before")
        scene.buffered()
        trap = scene.proxy.on("confirm", nth=3, when=when)
        scene.worker.sigterm()
        trap.wait()
        gate.open()
        scene.worker.wait()

        scene.settle()

        scene.account([*held, *ids]).check()
    finally:
        gate.open()
        scene.end()
