"""Tasks that record their starts, on an app that a test configures.

Every task takes its message's sequence number within its queue first; the
publisher (`tests/publishing.py`) puts it there.
"""

from __future__ import annotations

import os
import random
import socket
import time
from contextlib import suppress
from typing import Any

from celery import Celery
from celery.signals import worker_ready
from kombu import Queue

from tests.apps.recorder import Recorder
from tests.apps.settings import AppSettings

settings = AppSettings.from_environment()
settings.set_constants()

app = Celery("shares", broker=settings.broker_url)
app.conf.task_ignore_result = True
app.conf.broker_connection_retry_on_startup = True
if settings.queues is not None:
    app.conf.task_queues = [
        Queue(name, routing_key=name, queue_arguments=settings.queue_arguments)
        for name in settings.queues
    ]
app.conf.update(settings.conf)
if settings.fair:
    from celery_fair import FairConsumerStep

    app.steps["consumer"].add(FairConsumerStep)

started = Recorder(f"{settings.records}.started")
finished = Recorder(f"{settings.records}.finished")


@worker_ready.connect
def tell_the_test(**_: Any) -> None:
    if settings.ready_fd is not None:
        os.write(settings.ready_fd, b"ready\n")


def start(task: Any, seq: int) -> None:
    delivery = task.request.delivery_info
    redelivered = bool(delivery.get("redelivered"))
    started(delivery["routing_key"], task.request.id, int(seq), redelivered)


def finish(task: Any, seq: int) -> None:
    finished(task.request.delivery_info["routing_key"], task.request.id, seq)


def wait_at(gate: str) -> None:
    """Wait until the `Gate` of this path is open; cooperative under every pool."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as waiting:
        waiting.connect(gate)
        waiting.recv(1)


def work_for(seconds: float) -> None:
    """The work itself: a call of a slow partner, say. No test waits by it."""
    time.sleep(seconds)


@app.task(bind=True, name="noop")
def noop(self: Any, seq: int) -> None:
    start(self, seq)


@app.task(bind=True, name="spin")
def spin(self: Any, seq: int, us: int) -> None:
    """Keep a processor busy for so many microseconds."""
    end = time.perf_counter_ns() + 1000 * us
    start(self, seq)
    while time.perf_counter_ns() < end:
        pass


@app.task(bind=True, name="nap")
def nap(self: Any, seq: int, seconds: float) -> None:
    """Take time without taking a processor."""
    start(self, seq)
    work_for(seconds)
    finish(self, seq)


@app.task(bind=True, name="doze")
def doze(self: Any, seq: int, seconds: float) -> None:
    """A nap of half to one and a half times as long, so that slots do not fall into step."""
    start(self, seq)
    work_for(seconds * random.uniform(0.5, 1.5))
    finish(self, seq)


@app.task(bind=True, name="hold")
def hold(self: Any, seq: int, gate: str) -> None:
    """Run until the gate is open."""
    start(self, seq)
    wait_at(gate)
    finish(self, seq)


@app.task(bind=True, name="fail")
def fail(self: Any, seq: int) -> None:
    start(self, seq)
    raise RuntimeError(f"task {seq} fails on purpose")
