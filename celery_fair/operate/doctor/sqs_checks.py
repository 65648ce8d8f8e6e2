"""What Amazon's SQS says."""

from collections.abc import Iterator
from typing import Any

from celery_fair.brokers.broker import shown
from celery_fair.operate.doctor.findings import Finding, ok
from celery_fair.operate.doctor.holding import visibility


def sqs_findings(app: Any, connection: Any) -> Iterator[Finding]:
    """Check SQS as the app's broker; `connection` is connected. No queue is made."""
    from kombu.transport.SQS.exceptions import DoesNotExistQueueException

    channel = connection.default_channel
    yield ok("broker", f"SQS at {shown(connection)}")
    yield visibility(app, channel.visibility_timeout)
    for queue in app.amqp.queues:
        try:
            channel._resolve_queue_url(queue)
            yield ok(f"queue {queue}", f"about {channel._size(queue)} messages")
        except DoesNotExistQueueException:
            yield ok(f"queue {queue}", "is not there yet")
