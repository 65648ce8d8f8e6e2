"""What comes from Redis, by the bell and by looking, comes in the order of its queue."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kombu import Connection, Queue
from kombu.asynchronous import Hub
from kombu.transport.redis import QoS

from celery_fair.core.dwrr import Flow
from celery_fair.worker.queues.delivery import NotHeldError
from celery_fair.worker.queues.redis_source import RedisFeed, RedisSource
from tests.brokers import Space
from tests.feeds import gate, ports
from tests.publishing import publish
from tests.waiting import wait_for

WINDOW = 4


class Listening:
    """A source that sleeps: its bell rings for the next message of its only queue."""

    def __init__(self, connection: Connection, url: str) -> None:
        self.url = url
        self.source = RedisSource(connection, Hub(), soon=lambda: None)
        flow = Flow("a", 1.0)
        self.feed: RedisFeed = self.source.feed(
            queue=Queue("a"), flow=flow, window=WINDOW, gate=gate(), ports=ports()
        )
        self.feed.open()
        self.source.seek()
        assert self.source._listening == {"a"}

    def publish(self, count: int) -> list[str]:
        return publish(self.url, {"a": count}).all()

    @property
    def ids(self) -> list[str]:
        """Of what is buffered."""
        return [message.headers["id"] for message in self.feed.buffer]

    def wait_full(self) -> None:
        def full() -> bool:
            self.source.fetch()
            return len(self.feed.buffer) >= WINDOW

        wait_for(full, 10, lambda: f"a full window, not {self.ids}")


@pytest.fixture
def listening(redis_space: Space) -> Iterator[Listening]:
    with Connection(redis_space.url) as connection:
        listening = Listening(connection, redis_space.url)
        yield listening
        listening.source.close()


def test_what_has_rung_comes_before_the_rest(listening: Listening) -> None:
    """A look comes before the bell's answer was read, and even before it is there."""
    hear = listening.source._hear
    listening.source._hear = lambda: None  # type: ignore[method-assign]
    ids = listening.publish(WINDOW + 2)
    listening.source.fetch()
    assert listening.ids == []

    listening.source._hear = hear  # type: ignore[method-assign]
    listening.wait_full()
    assert listening.ids == ids[:WINDOW]
    listening.source.fetch()
    assert listening.ids == ids[:WINDOW]


def test_a_look_hears_the_bell(listening: Listening) -> None:
    (first,) = listening.publish(1)
    wait_for(lambda: listening.source.fetch() or listening.ids, 10, "the first")
    assert listening.ids == [first]
    assert not listening.source._listening

    more = listening.publish(WINDOW - 1)
    listening.wait_full()
    assert listening.ids == [first, *more]


def test_a_bell_that_was_heard_already_keeps_nobody_waiting(listening: Listening) -> None:
    """The loop may have seen that it rings, before a look has heard it."""
    listening.publish(1)
    wait_for(lambda: listening.source.fetch() or listening.ids, 10, "the first")
    listening.source._on_bell()
    listening.feed.buffer.clear()
    listening.source.listen()
    listening.source._on_bell()
    assert listening.source._listening == {"a"}


def test_what_another_holds_by_now_is_not_acknowledged(redis_space: Space) -> None:
    """It was restored when its time was over, and a second worker has taken it."""
    with Connection(redis_space.url) as one, Connection(redis_space.url) as other:
        sleeper, second = Listening(one, redis_space.url), Listening(other, redis_space.url)
        ids = publish(redis_space.url, {"a": 1}).all()
        wait_for(lambda: sleeper.source.fetch() or sleeper.ids, 10, "the message")
        held = sleeper.feed.buffer[0]
        qos = second.source.channel.qos
        assert isinstance(qos, QoS)
        qos.restore_by_tag(held.delivery_tag)
        wait_for(lambda: second.source.fetch() or second.ids, 10, "it again")
        assert second.ids == ids

        with pytest.raises(NotHeldError):
            sleeper.source.acknowledge(held)
        second.source.acknowledge(second.feed.buffer[0])
        sleeper.source.close()
        second.source.close()
