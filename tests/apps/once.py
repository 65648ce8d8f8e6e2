"""Non-repeatable tasks, and ordinary ones, that record their starts and ends."""

from __future__ import annotations

from typing import Any

from celery.exceptions import Reject

from celery_fair import NonRepeatableTask
from tests.apps.shares import app, finish, start, wait_at, work_for


def until_open(self: Any, seq: int, gate: str = "", seconds: float = 0) -> None:
    """Run until the gate is open, if one is named; then take time without taking a processor."""
    start(self, seq)
    if gate:
        wait_at(gate)
    work_for(seconds)
    finish(self, seq)


for ack in ("before", "after"):
    app.task(base=NonRepeatableTask, bind=True, name=ack, ack=ack)(until_open)
app.task(bind=True, name="plain")(until_open)
app.task(bind=True, name="late", acks_late=True, reject_on_worker_lost=True)(until_open)
app.task(base=NonRepeatableTask, bind=True, name="confirmed", confirm=True)(until_open)


@app.task(base=NonRepeatableTask, bind=True, name="retries")
def retries(self: Any, seq: int) -> None:
    start(self, seq)
    self.retry()


@app.task(base=NonRepeatableTask, bind=True, name="order", key=lambda seq, order: order)
def order(self: Any, seq: int, order: str) -> None:
    """What the arguments name is to be done once, however often it is published."""
    start(self, seq)
    finish(self, seq)


@app.task(base=NonRepeatableTask, bind=True, name="rejects", ack="after")
def rejects(self: Any, seq: int) -> None:
    start(self, seq)
    raise Reject(f"task {seq} rejects its message", requeue=False)


@app.task(base=NonRepeatableTask, bind=True, name="replaces")
def replaces(self: Any, seq: int, *names: str) -> None:
    """Have the task of the first name in its place, which gets the other names."""
    start(self, seq)
    replacement = self.app.tasks[names[0]].s(seq, *names[1:])
    self.replace(replacement.set(queue=self.request.delivery_info["routing_key"]))
