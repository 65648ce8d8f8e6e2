"""What becomes of the worker."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress

import psutil

from tests.faults.run import Run
from tests.faults.scene import QUEUES
from tests.integration.depths import left
from tests.waiting import wait_equal, wait_for

LOST = "Connection to broker lost"
HANGS_AFTER = 10


def killed(run: Run) -> None:
    run.publish()
    run.moment()
    run.kill()


def killed_buffered(run: Run) -> None:
    """What waits in the worker was delivered, and neither acknowledged nor chosen."""
    run.buffer()
    run.kill()


def killed_acknowledged(run: Run) -> None:
    """The pool's processes stand still, so that what they are handed cannot start.

    Of "after", which is acknowledged at the end, it is what was handed over and has not started.
    """
    for child in run.worker_process.children():
        child.suspend()
    tasks = run.shuffled() * run.scene.concurrency  # at least so many
    ids = run.one_each(tasks)
    handed = tasks[: run.scene.concurrency]
    wait_equal(
        lambda: left(run.scene.space, QUEUES[0]), len(ids) - len(handed) + handed.count("after")
    )
    run.kill()
    assert not run.scene.records.started.times(ids)


def killed_working(run: Run) -> None:
    """All slots work."""
    run.hold()
    run.occupied()
    run.kill()


def killed_done(run: Run) -> None:
    """What has been done is not acknowledged: that is under way, and arrives no more.

    A task whose acknowledgement is a round trip, before it starts, waits for the answer then.
    """
    waits = {"confirmed"} if run.kind == "rabbitmq" else {"before", "confirmed"}
    trap = run.proxy.on({"rabbitmq": "ack", "redis": "ZREM"}[run.kind], action="hold")
    done = run.one_each([task for task in run.shuffled() if task not in waits])
    run.scene.records.finished.wait_ids(done)
    run.one_each([task for task in run.shuffled() if task in waits])
    trap.wait()
    run.kill()
    run.proxy.cut()


def child_killed(run: Run) -> None:
    """SIGKILL for one of the pool's processes."""
    run.publish()
    run.hold()
    run.moment()
    children = [child.pid for child in run.worker_process.children()]
    running = wait_for(lambda: [pid for pid in run.busy() if pid in children], 60, "a busy child")
    psutil.Process(run.rng.choice(running)).kill()


def terminated(run: Run) -> None:
    """SIGTERM: a warm shutdown.

    Under prefork now and then a process of the pool waits 30 seconds for its last result to be
    counted, on Celery's own worker too.
    """
    run.publish()
    run.moment()
    assert run.worker_process.stop() == 0


def terminated_and_cut(run: Run) -> None:
    """The connection breaks while what was not started is given back."""
    run.publish()
    run.hold()
    if run.kind == "rabbitmq":
        run.filled()
        trap = run.proxy.on("confirm", nth=3)
        run.worker_process.sigterm()
        trap.wait()
    else:  # there may be nothing to give back
        run.moment()
        run.proxy.on("EVAL")
        run.worker_process.sigterm()
    run.gate.open()
    run.worker_process.wait()


def quit_(run: Run) -> None:
    """SIGQUIT: a cold shutdown, and SIGKILL where that hangs.

    Celery does all of it within the signal's handler, which then may wait for a lock of the code
    that it has interrupted (that of the thread pool, for one).
    """
    run.publish()
    run.moment()
    run.worker_process.sigquit()
    with suppress(subprocess.TimeoutExpired):
        run.worker_process.wait(HANGS_AFTER)
    run.worker_process.process.end()


def stopped(run: Run) -> None:
    """The worker sleeps while its broker gives its messages to another, and then wakes."""
    run.publish()
    run.moment()
    log = run.worker_process.log
    before = log().count(LOST)
    os.kill(run.worker_process.pid, signal.SIGSTOP)
    try:
        run.proxy.cut()
        run.scene.another()
        run.scene.drained()
    finally:
        os.kill(run.worker_process.pid, signal.SIGCONT)
    # Until it knows, it may take what is published next on one connection and lose it on another.
    wait_for(lambda: log().count(LOST) > before, 60, log)


def overslept(run: Run) -> None:
    """The same, and its connection is as it was: what it holds is another's by now."""
    run.buffer()
    os.kill(run.worker_process.pid, signal.SIGSTOP)
    try:
        run.scene.another()
        run.scene.drained()
    finally:
        os.kill(run.worker_process.pid, signal.SIGCONT)
