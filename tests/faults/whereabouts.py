"""Where messages are at a broker: in queues, held by a worker, or among the dead letters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from kombu import Connection, Queue

from celery_fair.dead_letters.death import dead_letter_queue
from tests.brokers import Space
from tests.integration.depths import REDIS_HASH, is_of

__all__ = ["taken_dead_letters", "waiting"]


def taken_dead_letters(space: Space) -> list[str]:
    """Take the dead letters out of their queue; return their ids."""
    with Connection(space.url) as connection, connection.channel() as channel:
        queue = dead_letter_queue("dead-letters")(channel)
        queue.declare()
        ids = []
        while (message := queue.get()) is not None:
            message.ack()
            ids.append(str(message.headers["id"]))
        return ids


def waiting(space: Space, queues: Sequence[str]) -> list[str]:
    """What the broker has in the queues and their lanes, or has given to a worker, by task id."""
    with Connection(space.url) as connection, connection.channel() as channel:
        if space.kind == "redis":
            return list(_in_redis(channel.client, queues))
        names = [name for name in space.depths() if any(is_of(name, queue) for queue in queues)]
        held = [message for name in names for message in iter(Queue(name)(channel).get, None)]
        return [message.headers["id"] for message in held]


def _in_redis(client: Any, queues: Sequence[str]) -> Iterator[str]:
    names = [name.decode() for name in client.scan_iter(_type="list")]
    lists = [name for name in names if any(is_of(name, queue) for queue in queues)]
    stored = [json.loads(raw) for name in lists for raw in client.lrange(name, 0, -1)]
    stored += [json.loads(raw)[0] for raw in client.hvals(REDIS_HASH)]
    return (message["headers"]["id"] for message in stored)
