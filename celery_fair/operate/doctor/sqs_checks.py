"""What Amazon's SQS says."""

from collections.abc import Iterator
from typing import Any

from celery_fair.brokers.broker import shown
from celery_fair.operate.doctor.findings import Finding, dead_letters, ok
from celery_fair.operate.doctor.holding import visibility


def sqs_findings(app: Any, connection: Any, queues: list[Any], letters: str) -> Iterator[Finding]:
    """Check SQS as the app's broker; `connection` is connected. No queue is made."""
    channel = connection.default_channel
    yield ok("broker", f"SQS at {shown(connection)}")
    yield visibility(app, channel.visibility_timeout)
    for queue in queues:
        waiting = _waiting(channel, queue.name)
        text = "is not there yet" if waiting is None else f"about {waiting} messages"
        yield ok(f"queue {queue.name}", text)
    yield dead_letters(_waiting(channel, letters) or 0, letters)


def _waiting(channel: Any, queue: str) -> int | None:
    from kombu.transport.SQS.exceptions import DoesNotExistQueueException

    try:
        channel._resolve_queue_url(queue)
    except DoesNotExistQueueException:
        return None
    return int(channel._size(queue))
