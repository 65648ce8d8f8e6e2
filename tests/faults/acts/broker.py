"""What becomes of the broker, or of a queue."""

from __future__ import annotations

from tests.brokers import RedisServer
from tests.faults.run import Run
from tests.faults.scene import QUEUES
from tests.faults.stage import LIMIT
from tests.integration.patience import run_out
from tests.waiting import wait_for

DELETED = "was deleted at the broker"
"""What the worker says of a queue that it declares again."""
CLOSED = "closed the channel of queue"
STARVING = 12
LEASHED = {queue: {"rate": "1/h", "prefetch": STARVING} for queue in QUEUES}


def broker_killed(run: Run) -> None:
    run.publish()
    run.moment()
    run.scene.space.server.kill()
    run.scene.space.server.restart()


def broker_restarted(run: Run) -> None:
    run.publish()
    run.moment()
    run.scene.space.server.restart()


def flushed(run: Run) -> None:
    run.publish()
    run.moment()
    server = run.scene.space.server
    assert isinstance(server, RedisServer)
    server.flush(run.scene.space.place)


def queue_deleted(run: Run) -> None:
    """A classic one.

    A quorum queue of RabbitMQ 3.10 that is declared again at once refuses messages for a while, or
    takes the consumer of the deleted one for its own and delivers into nothing.
    """
    run.publish()
    run.moment()
    before = run.worker_process.log().count(DELETED)
    run.scene.delete(run.rng.choice(QUEUES))
    log = run.worker_process.log
    wait_for(lambda: log().count(DELETED) > before, 60, log)


def channel_timed_out(run: Run) -> None:
    """A task, or a message that waits for a slot, is unacknowledged for too long."""
    log = run.worker_process.log
    before = log().count(CLOSED)
    run.hold()
    run.occupied()
    wait_for(lambda: log().count(CLOSED) > before, 60, log)


def given_back_in_time(run: Run) -> None:
    """What waits goes back before that; the broker's time runs out for others, twice."""
    run.block()
    run.occupied()
    run.one_each(run.shuffled(), 2)
    for _ in range(2):
        run_out(run.scene.space)
    assert CLOSED not in run.worker_process.log()


def given_back_often(run: Run) -> None:
    """What waits goes back each time that a worker stops, more often than a queue allows."""
    run.worker_process.stop()
    run.one_each(run.shuffled(), STARVING // len(run.ids))
    for _ in range(LIMIT + 2):
        worker = run.scene.another(fair_queues=LEASHED)
        run.scene.buffered(STARVING // 2, worker)
        assert worker.stop() == 0
