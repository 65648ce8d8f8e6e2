"""An app with logical queues: the recording tasks, installed as a user would."""

from __future__ import annotations

from typing import Any

from celery_fair import install
from tests.apps.shares import app, start

install(app)


@app.task(bind=True, name="again")
def again(self: Any, seq: int) -> None:
    """Record the second attempt."""
    if not self.request.retries:
        raise self.retry(countdown=0)
    start(self, seq)


@app.task(bind=True, name="routed")
def routed(self: Any, seq: int) -> None:
    """The publisher has a route for it."""
    start(self, seq)


@app.task(bind=True, name="placed")
def placed(self: Any, seq: int) -> None:
    """The publisher's task has a queue."""
    start(self, seq)


@app.task(bind=True, name="sends")
def sends(self: Any, seq: int, queue: str, priority: int) -> None:
    """Publish from within a task."""
    app.send_task("noop", [seq], queue=queue, priority=priority)
