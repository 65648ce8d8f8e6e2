"""A task that says what it was preferred to, on a worker with a solo pool.

There a task runs within its dispatch, so that what waits in the worker is what waited when the task
was chosen.
"""

from __future__ import annotations

from typing import Any

from celery.signals import celeryd_after_setup

from tests.apps.shares import app, start

workers: list[Any] = []


@celeryd_after_setup.connect
def remember(instance: Any, **_: Any) -> None:
    workers.append(instance)


@app.task(bind=True, name="witness")
def witness(self: Any, seq: int) -> None:
    """Record how many messages of higher classes wait in the worker, in place of `seq`."""
    feeds = list(workers[0].consumer.fair.parts.feeds)
    classes = {feed.name: feed.gate.options.level for feed in feeds}
    own = classes[self.request.delivery_info["routing_key"]]
    start(self, sum(len(feed.buffer) for feed in feeds if classes[feed.name] > own))
