"""From a message to Celery's request: by the short way, or by Celery's."""

from collections.abc import Callable, Mapping
from typing import Any

from celery_fair.tasks import MAPS, refuse_mapped
from celery_fair.worker.queues.consumer import FairTaskConsumer

__all__ = ["Requests"]

ShortWay = Callable[[Any], Any]
"""Returns the request that Celery would make of a message, or None."""


class Requests:
    """Receives the messages of one connection.

    Arguments:
        tasks: the app's.
        consumer: has Celery's handler, once Celery's loop has given it.
        short_ways: tried before that; see `celery_fair.worker.express.fast_requests`.
        tokens: the fencing tokens of partitions that are owned.
        priorities_back: turns a level's priority back into the publisher's, by queue.
    """

    def __init__(
        self,
        tasks: Mapping[str, Any],
        consumer: FairTaskConsumer,
        short_ways: tuple[ShortWay, ...],
        tokens: Mapping[str, int],
        priorities_back: Mapping[str, Callable[[int], int]],
    ) -> None:
        self._tasks = tasks
        self._consumer = consumer
        self._short_ways = short_ways
        self._tokens = tokens
        self._priorities_back = priorities_back

    def receive(self, message: Any) -> Any:
        """Return a message's request, or None if Celery is to say what becomes of it, or has.

        Raises:
            Exception: no task can be made of it.
        """
        queue = message.feed.name
        back = self._priorities_back.get(queue)
        if back is not None:
            message.properties["priority"] = back(message.properties.get("priority") or 0)
        token = self._tokens.get(queue)
        if token is not None:
            message.come_into(queue, token)
        for way in self._short_ways:
            request = way(message)
            if request is not None:
                return request
        self._refuse_mapped(message)
        handler = self._consumer.on_message
        assert handler is not None, (
            "Celery's loop gives the consumer its handler before it consumes"
        )
        handler(message)
        return None

    def _refuse_mapped(self, message: Any) -> None:
        headers = message.headers
        if headers is None or "task" in headers:
            if headers and headers["task"] in MAPS:
                args, kwargs, _ = message.payload
                refuse_mapped(self._tasks, args, kwargs)
            return
        body = message.payload  # of Celery's first protocol
        if isinstance(body, Mapping) and body.get("task") in MAPS:
            refuse_mapped(self._tasks, body.get("args"), body.get("kwargs"))
