"""A channel that the broker has closed, which nobody has read yet: it has all deliveries back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from amqp import RecoverableChannelError
from kombu import Connection, Queue

from celery_fair.brokers.amqp_mover import AmqpMover
from celery_fair.core.dwrr import Flow
from celery_fair.core.window import RefillMeter
from celery_fair.worker.amqp_io.writer import AckWriter
from celery_fair.worker.fast_path.path import FastPath
from celery_fair.worker.queues.amqp import AmqpFeed
from celery_fair.worker.queues.feed import Feed
from celery_fair.worker.queues.sources import AmqpSource, read_plainly
from tests.brokers import Space
from tests.feeds import gate, ports
from tests.integration.depths import ready
from tests.publishing import publish
from tests.waiting import wait_equal

HELD = 3
UNKNOWN = 1_000_000
"""The tag of no delivery: to acknowledge it is a reason to close the channel."""


@pytest.fixture
def connection(rabbitmq_space: Space) -> Iterator[Connection]:
    publish(rabbitmq_space.url, {"a": HELD})
    with Connection(rabbitmq_space.url) as connection:
        yield connection.ensure_connection()


def test_what_was_held_is_not_given_back_as_well(
    rabbitmq_space: Space, connection: Connection
) -> None:
    closed: list[Feed] = []
    acks = AckWriter(connection.connection, lambda: None)
    acks.write_through()
    feed = AmqpFeed(
        Queue("a"),
        connection.channel(),
        Flow("a", 1.0),
        HELD,
        gate(),
        ports(closed=closed.append),
        meter=RefillMeter(),
        acks=acks,
    )
    feed.open()
    while len(feed.buffer) < HELD:
        connection.drain_events(timeout=30)
    mover = AmqpMover("dead", connection)
    held = list(feed.buffer)

    mover.give_back(held[0], {})
    wait_equal(lambda: ready(rabbitmq_space, "a"), 0)  # which is delivered at once
    while len(feed.buffer) <= HELD:
        connection.drain_events(timeout=30)
    feed.channel.basic_ack(UNKNOWN)
    wait_equal(lambda: ready(rabbitmq_space, "a"), HELD)
    for message in held[1:]:
        mover.give_back(message, {})

    assert ready(rabbitmq_space, "a") == HELD
    assert closed == [feed]
    mover.close()


def test_whoever_waits_for_the_brokers_word_hears_of_it_and_so_does_the_queue(
    rabbitmq_space: Space, connection: Connection
) -> None:
    """Else nobody would consume it again."""
    closed: list[Feed] = []
    source = AmqpSource(connection, None, RefillMeter(), lambda: None, FastPath.read)
    feed = source.feed(
        queue=Queue("a"),
        flow=Flow("a", 1.0),
        window=HELD,
        gate=gate(),
        ports=ports(closed=closed.append),
    )
    feed.open()
    while len(feed.buffer) < HELD:
        connection.drain_events(timeout=30)
    message = feed.buffer[0]
    source.acknowledge(message)
    source.flush()
    source.confirm(message)
    assert not closed

    feed.channel.basic_ack(UNKNOWN)
    source.flush()
    wait_equal(lambda: ready(rabbitmq_space, "a"), HELD - 1)
    with pytest.raises(RecoverableChannelError):
        source.confirm(message)
    assert closed == [feed]


def test_a_queue_that_is_cancelled_then_gives_nothing_back(
    rabbitmq_space: Space, connection: Connection
) -> None:
    closed: list[Feed] = []
    source = AmqpSource(connection, None, RefillMeter(), lambda: None, FastPath.read)
    feed = source.feed(
        queue=Queue("a"),
        flow=Flow("a", 1.0),
        window=HELD + 1,
        gate=gate(),
        ports=ports(closed=closed.append),
    )
    feed.open()
    while len(feed.buffer) < HELD:
        connection.drain_events(timeout=30)
    feed.channel.basic_ack(UNKNOWN)
    source.flush()
    wait_equal(lambda: ready(rabbitmq_space, "a"), HELD)
    feed.cancel()
    feed.hand_back()
    assert closed == [feed]
    assert ready(rabbitmq_space, "a") == HELD


def test_what_comes_on_it_yet_is_dropped(
    rabbitmq_space: Space, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quorum queue delivers still between the broker's word and our answer.

    Whoever waits for an answer on another channel then hears nothing of it.
    """
    broker: Any = connection.connection
    closed: list[Feed] = []
    source = AmqpSource(connection, None, RefillMeter(), lambda: None, read_plainly)
    feed = source.feed(
        queue=Queue("a"),
        flow=Flow("a", 1.0),
        window=HELD,
        gate=gate(),
        ports=ports(closed=closed.append),
    )
    number, take_in, came = feed.channel.channel_id, feed.channel.dispatch_method, []

    def dispatch_method(*method: Any) -> None:
        came.append(method)
        take_in(*method)

    monkeypatch.setattr(feed.channel, "dispatch_method", dispatch_method)
    feed.open()
    while len(feed.buffer) < HELD:
        connection.drain_events(timeout=30)
    feed.channel.basic_ack(UNKNOWN)
    source.flush()
    while not closed:
        connection.drain_events(timeout=30)

    held = len(feed.buffer)
    for method in came[:]:  # the deliveries are among them, and what closed it
        broker.channels[number].dispatch_method(*method)

    assert len(feed.buffer) == held
    assert closed == [feed]
