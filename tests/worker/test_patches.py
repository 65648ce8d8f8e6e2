"""What is replaced in Celery, where an older one lacks what the newest does by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from celery import Celery
from kombu import Queue

from celery_fair.worker import patches


def test_a_queue_that_is_cancelled_and_added_is_still_consumed_after_a_reconnect() -> None:
    app = Celery(set_as_current=False)
    app.conf.task_queues = [Queue("a"), Queue("b")]
    queues = app.amqp.queues
    added: list[str] = []
    consumer: Any = SimpleNamespace(app=app, add_task_queue=added.append)
    patches.replace_add(consumer)
    for selection in (["a"], ["a", "b"]):
        queues.select(selection)
        queues.deselect("a")
        consumer.add_task_queue("a")
        assert set(queues.consume_from) == set(selection)
    consumer.add_task_queue("c")
    assert added == ["a", "a", "c"]
    assert "c" not in queues  # Celery's own makes it
