"""Waiting until a broker's patience has run out for a message that nobody has acknowledged.

The message is one of the waiting test's own, and younger than what a worker holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from amqp import PreconditionFailed
from kombu import Connection

from tests.brokers import Space
from tests.brokers.sqs import Sqs
from tests.publishing import publish
from tests.waiting import wait_for

WITHIN = 30
"""Seconds."""
QUEUE = "canary"


def run_out(place: Space) -> None:
    """RabbitMQ's: hold a message until the broker closes the channel for it."""
    publish(place.url, {QUEUE: 1})
    with Connection(place.url) as connection:
        connection.default_channel.basic_get(QUEUE)
        with pytest.raises(PreconditionFailed, match="timed out"):
            connection.drain_events(timeout=WITHIN)


def become_visible(place: Space, options: Mapping[str, Any]) -> None:
    """Redis's: give back what has been held for too long, as any worker does, until it was ours."""
    publish(place.url, {QUEUE: 1})
    with Connection(place.url, transport_options=dict(options)) as connection:
        channel = connection.default_channel
        channel.basic_get(QUEUE)

        def is_back() -> bool:
            channel.qos.restore_visible(num=1000, interval=1)
            return bool(channel.client.llen(QUEUE))

        wait_for(is_back, WITHIN, "the visibility timeout")
        channel.client.delete(QUEUE)


def be_received_again(sqs: Sqs, seconds: int) -> None:
    """SQS's visibility timeout, which each queue has for itself."""
    url = sqs.client.create_queue(QueueName=QUEUE, Attributes={"VisibilityTimeout": str(seconds)})[
        "QueueUrl"
    ]
    sqs.client.send_message(QueueUrl=url, MessageBody=QUEUE)

    def receive() -> Any:
        return sqs.client.receive_message(QueueUrl=url).get("Messages")

    assert receive()
    (message,) = wait_for(receive, WITHIN, "the visibility timeout", interval=0.1)
    sqs.client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
