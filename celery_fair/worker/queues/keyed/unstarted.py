"""Which queues a worker may hold messages of that are not to start at once.

What it holds unstarted comes back as redelivered if the worker is killed, or its connection lost:
an ordinary task starts then, and a non-repeatable one becomes a dead letter. What a queue has next
nobody can tell. So nothing is held of a queue that the app itself sends non-repeatable tasks to;
nor, from then on, of one that such a task has come from all the same, as its publisher wanted.
"""

from typing import Any

from celery_fair.tasks import non_repeatable

__all__ = ["Unstarted"]


class Unstarted:
    """Of all queues of a worker, as long as it lives.

    Arguments:
        app: whose tasks are registered, and routed as it says.
    """

    def __init__(self, app: Any) -> None:
        names = [_queue_of(app, app.tasks[name]) for name in non_repeatable(app)]
        self._anywhere = None in names  # one of them is sent who knows where
        self._once = set(names)

    def may_wait(self, queue: str) -> bool:
        """Whether messages of a queue may wait here."""
        return not (self._anywhere or queue in self._once)

    def came_once(self, queue: str) -> None:
        """A non-repeatable task has come from this queue."""
        self._once.add(queue)


def _queue_of(app: Any, task: Any) -> str | None:
    """Return the queue that a task is sent to if its publisher says nothing; None: it depends.

    Not by the router's `route`, which makes queues of names, and those would be consumed, too.
    """
    own = {name: getattr(task, name, None) for name in ("queue", "exchange", "routing_key")}
    try:
        found = app.amqp.router.lookup_route(task.name, (), {}, dict(own), task) or {}
    except Exception:  # noqa: BLE001 - a router of the app's, which wants to see arguments, say
        return None
    route = {"queue": found} if isinstance(found, str) else found
    if any(said.get(name) for said in (own, route) for name in ("exchange", "routing_key")):
        return None
    queue = own["queue"] or route.get("queue") or app.conf.task_default_queue
    return str(getattr(queue, "name", queue))
