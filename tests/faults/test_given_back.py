"""What was given back, or may have been, starts once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.apps.settings import CONSTANTS, GIVEN_BACK_AFTER
from tests.brokers import RabbitMQ
from tests.faults.fault import Fault
from tests.faults.ledgers import OnRedis
from tests.faults.matrix import attempt
from tests.faults.quick import SEED
from tests.faults.run import Run
from tests.faults.scene import AWAY, QUEUES, Scene
from tests.integration.depths import ready
from tests.integration.gate import Gate
from tests.waiting import wait_equal, wait_for

NOT_GIVEN_BACK = "could not be given back"


@contextmanager
def at_work(rabbitmq: RabbitMQ, folder: Path, **options: Any) -> Iterator[tuple[Scene, Gate]]:
    """A worker that is ready, and a gate that is open in the end."""
    scene, gate = Scene(rabbitmq.space(), folder, **options), Gate()
    try:
        scene.ready()
        yield scene, gate
    finally:
        gate.open()
        scene.end()


@pytest.mark.parametrize("when", ["before", "after"])
def test_confirmation_of_what_was_given_back_is_lost(
    rabbitmq: RabbitMQ, tmp_path: Path, when: str
) -> None:
    with at_work(rabbitmq, tmp_path) as (scene, gate):
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


def test_confirmation_is_late_and_the_worker_lives(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    """It tries again, and what may be at the broker twice by then counts as redelivered."""
    capped = {"fair_queues": {QUEUES[0]: {"max_in_flight": 1}, QUEUES[1]: {}}}
    conf = capped | {CONSTANTS: {GIVEN_BACK_AFTER: 0.5}}
    with at_work(rabbitmq, tmp_path, conf=conf) as (scene, gate):
        held = scene.publish(1, "before", str(gate.path), QUEUES[0])
        scene.records.started.wait_ids(held)
        trap = scene.proxy.on("confirm", nth=3, action="mute")  # after two probes
        ids = scene.publish(10, "before", queue=QUEUES[0])
        trap.wait()
        wait_for(lambda: NOT_GIVEN_BACK in scene.worker.log(), 30, scene.worker.log)
        wait_equal(lambda: ready(scene.space, QUEUES[0]), len(ids) + 1)
        gate.open()

        scene.settle()

        scene.account([*held, *ids]).check()
        assert len(scene.records.started.times(ids)) == len(ids)
        assert len(scene.dead_letters()) == 1


def test_what_counts_as_redelivered_still_does_when_it_was_given_back(
    rabbitmq: RabbitMQ, tmp_path: Path
) -> None:
    """Who had it before may have started it, whoever has had it since."""
    with at_work(rabbitmq, tmp_path) as (scene, gate):
        held = scene.publish(2, "before", str(gate.path), QUEUES[0])
        scene.records.started.wait_ids(held)
        ids = scene.publish(1, "before", queue=QUEUES[0])
        scene.buffered()
        scene.worker.cancel_consumer(QUEUES[1])
        heir = scene.another()
        busy = scene.publish(2, "before", str(gate.path), QUEUES[1])
        scene.records.started.wait_ids(busy)
        scene.worker.kill()
        scene.buffered(1, heir)
        heir.sigterm()
        gate.open()
        heir.wait()

        scene.settle()

        scene.account([*busy, *ids]).check()
        assert scene.dead_letters().keys() == set(ids)


def killed_marking(asks: bool, run: Run) -> None:
    """The ledger is away, and the marked copy comes to the broker when its worker is gone.

    Arguments:
        asks: whether the ledger was asked about it, and claims it when the worker is gone.
    """
    ledger = run.scene.ledger
    assert isinstance(ledger, OnRedis)
    ledger.pause()
    if not asks:  # again so soon
        run.scene.records.started.wait_ids(run.one_each(run.shuffled()))
        assert AWAY in run.worker_process.log()
    trap = run.proxy.on("publish", action="keep", containing=QUEUES[0].encode())
    marked = run.one_each(run.shuffled())
    trap.wait()
    run.kill()
    ledger.resume()
    wait_equal(lambda: ledger.claimed(marked), set(marked) if asks else set())
    wait_equal(lambda: ready(run.scene.space, QUEUES[0]), 1)  # else the copy may go there, too
    run.proxy.release()


@pytest.mark.parametrize("asks", [False, True], ids=["not asked", "asked"])
def test_worker_is_killed_while_it_gives_back_with_a_mark(
    rabbitmq: RabbitMQ, tmp_path: Path, asks: bool
) -> None:
    """Of the message and its copy one starts, and the other is a dead letter."""
    fault = Fault(partial(killed_marking, asks), kills=1, cuts=0, ends=True)
    with at_work(rabbitmq, tmp_path, ledger="ledger") as (scene, _):
        assert fault.allowed(scene, ("confirmed",)).dead_started == 0
        account = attempt(fault, ("confirmed",), scene, SEED)["confirmed"]
        assert len(account.dead_started) == 1
