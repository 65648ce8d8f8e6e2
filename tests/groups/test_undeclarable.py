"""A partition whose queue cannot be declared, as somebody has declared it otherwise."""

from __future__ import annotations

from pathlib import Path

from kombu import Connection, Queue

from tests.brokers import Space
from tests.groups.fleet import QUEUE, STEADY, Fleet
from tests.waiting import wait_equal
from tests.workers import StartWorker, WorkerProcess

P0, P1, P2 = (f"{QUEUE}.{number}" for number in range(3))


def consumed(worker: WorkerProcess) -> set[str]:
    names = {queue["name"] for queue in worker.inspect("active_queues") or ()}
    return names & {P0, P1, P2}


def test_the_others_are_consumed_and_it_is_when_it_can_be(
    rabbitmq_space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    fleet = Fleet(
        rabbitmq_space, start_worker, tmp_path, f"sqlite:///{tmp_path}/g.db", 3, lease=STEADY
    )
    with Connection(rabbitmq_space.url) as connection:
        other = Queue(P1, routing_key=P1, queue_arguments={"x-max-length": 5})(connection)
        other.declare()
        worker = fleet.worker()
        fleet.wait_counts([3], worker)
        wait_equal(lambda: consumed(worker), {P0, P2})
        other.delete()
        wait_equal(lambda: consumed(worker), {P0, P1, P2}, 30)
    assert worker.log().count("its queue cannot be declared") == 1
    assert worker.stop() == 0
