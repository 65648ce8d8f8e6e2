"""A task that raises what is no `Exception`: SystemExit, as `sys.exit` does, or KeyboardInterrupt.

In Celery's own worker a prefork task has failed; in a solo pool the worker may end, and elsewhere a
late acknowledgement is never made. So it is of MemoryError, which may end a prefork worker as well.
Celery's own kinds of SystemExit end a solo worker, and are in other pools as any other.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.brokers import Space
from tests.integration.depths import left
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import StartWorker

APP = """
from celery.exceptions import WorkerShutdown, WorkerTerminate
from tests.apps.once import *


def leaves(self, seq, name):
    start(self, seq)
    raise {
        "SystemExit": SystemExit(3),
        "KeyboardInterrupt": KeyboardInterrupt(),
        "MemoryError": MemoryError(),
        "WorkerShutdown": WorkerShutdown(0),
        "WorkerTerminate": WorkerTerminate(1),
    }[name]


app.task(bind=True, name="early")(leaves)
app.task(bind=True, name="late", acks_late=True)(leaves)
app.task(base=NonRepeatableTask, bind=True, name="leaves_before", ack="before")(leaves)
app.task(base=NonRepeatableTask, bind=True, name="leaves_after", ack="after")(leaves)
"""
TASKS = ["early", "late", "leaves_before", "leaves_after"]


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "plain"])
@pytest.mark.parametrize("pool", ["solo", "threads", "gevent", "prefork"])
def test_it_has_failed_and_the_worker_goes_on(
    rabbitmq_space: Space, start_worker: StartWorker, pool: str, fast: bool
) -> None:
    """Each starts once, and no message stays behind; of "after", there is a dead letter.

    Not of KeyboardInterrupt under prefork: that is a task's error there as any other.
    """
    conf: dict[str, Any] = {"fair_fast_path": fast}
    worker = start_worker(
        rabbitmq_space, app=APP, pool=pool, concurrency=2, queues=["q"], conf=conf
    )
    url, ids = rabbitmq_space.url, []
    kinds = ["SystemExit", "KeyboardInterrupt", "MemoryError"]
    if pool != "solo":
        kinds += ["WorkerShutdown", "WorkerTerminate"]
    for name in kinds:
        for task in TASKS:
            ids += publish(url, {"q": 1}, task, [name]).all()
    others = publish(url, {"q": 5}, "plain").all()
    worker.records.finished.wait_once(others)
    worker.records.started.wait_once(ids)
    wait_equal(lambda: left(rabbitmq_space, "q"), 0)
    assert "malformed" not in worker.log()
    assert worker.stop() == 0
    assert left(rabbitmq_space, "q") == 0
    assert left(rabbitmq_space, "dead-letters") == len(kinds) - (pool == "prefork")
