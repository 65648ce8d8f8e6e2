"""Putting many task messages on a broker quickly.

Celery's own `apply_async` takes about half a millisecond a message. Here the
message is built once, by Celery; then only its id and sequence number change.

    publish(url, {"p0": 1000, "p1": 1000})                    # task "noop"
    publish(url, {"p0": 10}, task="spin", args=(100,))
    publish(url, {"p0": 10}, countdown=2)                     # Celery's options
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kombu import Connection

from tests.publishing.amqp_broker import publish_amqp
from tests.publishing.message import Job, Template
from tests.publishing.redis_broker import publish_redis

__all__ = ["Ids", "publish", "publish_raw"]


class Ids(dict[str, list[str]]):
    """The ids of published messages, by queue."""

    def all(self) -> list[str]:
        return [task for queue in self.values() for task in queue]


def publish(
    url: str,
    counts: Mapping[str, int],
    task: str = "noop",
    args: Sequence[Any] = (),
    *,
    first: int = 0,
    persistent: bool = True,
    queue_arguments: Mapping[str, Any] | None = None,
    properties: Mapping[str, Any] | None = None,
    headers: Mapping[str, Any] | None = None,
    **options: Any,
) -> Ids:
    """Publish so many messages to each queue, in turns; returns their ids.

    The queues are declared. A message's first argument is its sequence number
    within its queue, from `first`; `args` follow. All messages are confirmed
    by the broker when this returns. Messages that need not survive the broker
    (`persistent=False`) cost RabbitMQ about half as much.
    """
    properties = {"delivery_mode": 2 if persistent else 1} | dict(properties or {})
    template = Template.of(task, args, properties, headers or {}, options)
    ids = Ids({queue: [] for queue in counts})
    jobs = _noting(ids, template.jobs(counts, first))
    if url.startswith("amqp"):
        publish_amqp(url, counts, jobs, template, dict(queue_arguments or {}))
    else:
        publish_redis(url, jobs, template)
    return ids


def _noting(ids: Ids, jobs: Iterator[Job]) -> Iterator[Job]:
    for job in jobs:
        ids[job.queue].append(job.id)
        yield job


def publish_raw(url: str, queue: str, body: bytes | str, **message: Any) -> None:
    """Publish one message exactly as given: kombu's `Producer.publish` options."""
    with Connection(url) as connection:
        connection.Producer().publish(body, routing_key=queue, **message)
