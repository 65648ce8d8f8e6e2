"""A subscription that ends under a backlog leaves nothing behind.

What a quorum queue of RabbitMQ hands to a consumer in the moment in which that is cancelled is
never sent to it, stays taken until the connection ends, and counts as redelivered then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from kombu import Connection, Queue

from celery_fair.core.dwrr import Flow
from celery_fair.core.window import RefillMeter
from celery_fair.worker.amqp_io.writer import AckWriter
from celery_fair.worker.queues.amqp import AmqpFeed
from tests.brokers import Space
from tests.feeds import gate, ports
from tests.publishing import publish

QUORUM = {"x-queue-type": "quorum"}
MESSAGES = 2000
ROUNDS = 10
WINDOW = 10
"""Threefold, still less than the 32 acknowledgements that RabbitMQ has under way at once."""


@pytest.fixture
def connection(rabbitmq_space: Space) -> Iterator[Connection]:
    publish(rabbitmq_space.url, {"a": MESSAGES}, queue_arguments=QUORUM)
    with Connection(rabbitmq_space.url) as connection:
        yield connection.ensure_connection()


@pytest.fixture
def feed(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> AmqpFeed:
    """It waits for what a slow broker owes."""
    monkeypatch.setattr("celery_fair.worker.queues.amqp._REFILL", 30.0)
    return opened(connection, Queue("a", queue_arguments=QUORUM))


def opened(connection: Connection, queue: Queue, **options: Any) -> AmqpFeed:
    acks = AckWriter(connection.connection, lambda: None)
    acks.write_through()
    feed = AmqpFeed(
        queue,
        connection.channel(),
        Flow(queue.name, 1.0),
        WINDOW,
        gate(**options),
        ports(),
        meter=RefillMeter(),
        acks=acks,
    )
    feed.open()
    return feed


def fill(feed: AmqpFeed) -> None:
    while feed.window.held < feed.window.size:
        feed.channel.connection.drain_events(timeout=30)


def acknowledge(feed: AmqpFeed, count: int) -> int:
    for _ in range(count):
        feed.buffer.popleft().ack()
    return count


def rest(connection: Connection) -> dict[bool, int]:
    """How many messages are left; by whether they count as redelivered."""
    connection.connection.close()
    with connection.clone() as other:
        channel = other.channel()
        left = iter(partial(channel.basic_get, "a"), None)
        return dict(Counter(message.delivery_info["redelivered"] for message in left))


@pytest.mark.either_broker
@pytest.mark.parametrize("exclusive", [False, True])
def test_another_window(connection: Connection, feed: AmqpFeed, exclusive: bool) -> None:
    feed.gate.options = replace(feed.gate.options, exclusive=exclusive)
    done = 0
    for round_ in range(ROUNDS):
        fill(feed)
        done += acknowledge(feed, WINDOW // 2)
        feed.resize((3 if round_ % 2 else 2) * WINDOW, exactly=True)
        done += acknowledge(feed, len(feed.buffer))

    fill(feed)
    feed.cancel()
    done += acknowledge(feed, len(feed.buffer))
    assert rest(connection) == {False: MESSAGES - done}


@pytest.mark.parametrize("count", [1, 5, WINDOW])
def test_no_subscription_any_more(connection: Connection, feed: AmqpFeed, count: int) -> None:
    done = 0
    for _ in range(ROUNDS):
        fill(feed)
        done += acknowledge(feed, count)
        feed.cancel()
        done += acknowledge(feed, len(feed.buffer))
        feed.open()

    fill(feed)
    feed.cancel()
    done += acknowledge(feed, len(feed.buffer))
    assert rest(connection) == {False: MESSAGES - done}


@pytest.mark.either_broker
def test_a_queue_that_goes_with_its_only_consumer(rabbitmq_space: Space) -> None:
    """Its window stays as it is: another would be a subscription in place of the first."""
    queue = Queue("brief", auto_delete=True)
    with Connection(rabbitmq_space.url) as connection:
        queue(connection).declare()
        opened(connection, queue, exclusive=True).resize(2 * WINDOW, exactly=True)
        assert connection.default_channel.queue_declare("brief", passive=True).consumer_count == 1
