"""Acknowledgements that are kept come out as py-amqp's own would, in order, and are never lost."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from amqp import RecoverableConnectionError, spec
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_fair.worker.amqp_io.writer import AckWriter
from tests.fast_path.broker import Broker, connected
from tests.fast_path.wire import METHOD, frame, method


def ack_of(channel: int, tag: int, multiple: bool = False) -> bytes:
    return frame(METHOD, channel, method(spec.Basic.Ack, "Lb", (tag, multiple)))


def reject_of(channel: int, tag: int) -> bytes:
    return frame(METHOD, channel, method(spec.Basic.Reject, "Lb", (tag, True)))


class Kept:
    """A connection with channels, whose acknowledgements are kept."""

    def __init__(self, broker: Broker, connection: Any) -> None:
        self.broker = broker
        self.connection = connection
        self.told = 0
        self.channels = [self._channel(number) for number in (1, 2)]
        broker.received_until(frame(METHOD, 2, method(spec.Channel.Open, "s", ("",))))
        self.acks = AckWriter(connection, self._on_first)

    def _channel(self, number: int) -> Any:
        self.broker.say(number, spec.Channel.OpenOk, "S", ("",))
        return self.connection.channel()

    def _on_first(self) -> None:
        self.told += 1

    def sends(self, data: bytes) -> None:
        """See that this has been sent next."""
        assert self.broker.received(len(data)) == data


@pytest.fixture
def kept() -> Iterator[Kept]:
    with connected() as (broker, connection):
        yield Kept(broker, connection)


def test_they_wait_until_they_are_flushed(kept: Kept) -> None:
    first, second = kept.channels
    kept.acks.ack(first, 1)
    kept.acks.ack(second, 1)
    kept.acks.ack(first, 2)
    assert kept.told == 1
    kept.acks.flush()
    kept.sends(ack_of(1, 1) + ack_of(2, 1) + ack_of(1, 2))
    kept.acks.ack(first, 3)
    assert kept.told == 2


def test_whatever_is_written_comes_after_them(kept: Kept) -> None:
    first, second = kept.channels
    kept.acks.ack(first, 1)
    second.basic_reject(1, True)
    kept.acks.ack(second, 2)
    kept.sends(ack_of(1, 1) + reject_of(2, 1))
    kept.acks.flush()
    kept.sends(ack_of(2, 2))


WAYS = st.sampled_from(["ack", "basic_ack", "reject", "flush", "flush more"])
CALLS = st.lists(
    st.tuples(WAYS, st.integers(0, 1), st.integers(0, 2**64 - 1), st.booleans()), max_size=30
)


@settings(deadline=None, max_examples=100)
@given(CALLS)
def test_byte_by_byte_what_py_amqp_writes(calls: list[tuple[str, int, int, bool]]) -> None:
    with connected() as (broker, connection):
        kept = Kept(broker, connection)
        expected = b""
        for way, index, tag, multiple in calls:
            channel = kept.channels[index]
            if way == "ack":
                kept.acks.ack(channel, tag, multiple)
            elif way == "basic_ack":
                channel.basic_ack(tag, multiple)
            elif way == "reject":
                channel.basic_reject(tag, True)
                expected += reject_of(index + 1, tag)
            else:
                kept.acks.flush(more=way == "flush more")
            if way.endswith("ack"):
                expected += ack_of(index + 1, tag, multiple)
        kept.acks.flush()
        kept.channels[0].basic_reject(4711, True)
        kept.sends(expected + reject_of(1, 4711))


def test_what_may_be_kept_for_a_moment_is_sent_with_the_next_flush(kept: Kept) -> None:
    kept.acks.ack(kept.channels[0], 1)
    kept.acks.flush(more=True)
    kept.acks.flush()
    kept.sends(ack_of(1, 1))


@pytest.mark.parametrize("count", [1, 7])
def test_nothing_is_kept_at_the_end(kept: Kept, count: int) -> None:
    kept.acks.ack(kept.channels[0], 1)
    kept.acks.write_through()
    kept.sends(ack_of(1, 1))
    for tag in range(2, 2 + count):
        kept.acks.ack(kept.channels[0], tag)
        kept.sends(ack_of(1, tag))


def test_not_too_many_wait(kept: Kept) -> None:
    for tag in range(1000):
        kept.acks.ack(kept.channels[0], tag)
    kept.sends(b"".join(ack_of(1, tag) for tag in range(1000)))


def test_a_channel_that_is_closed_refuses(kept: Kept) -> None:
    channel = kept.channels[0]
    channel.collect()
    with pytest.raises(RecoverableConnectionError):
        kept.acks.ack(channel, 1)


@pytest.mark.parametrize("more", [False, True])
def test_a_broken_socket_marks_the_connection(kept: Kept, more: bool) -> None:
    kept.connection.sock.shutdown(socket.SHUT_WR)
    kept.acks.ack(kept.channels[0], 1)
    with pytest.raises(OSError, match="pipe"):
        kept.acks.flush(more)
    assert not kept.connection.connected


def test_what_was_lost_with_others_is_not_forgotten_by_whoever_asks_later(kept: Kept) -> None:
    """Who waits for it to be written must not take a later silence for success."""
    kept.connection.sock.shutdown(socket.SHUT_WR)
    kept.acks.ack(kept.channels[0], 1)
    with pytest.raises(OSError, match="pipe"):
        kept.acks.flush()

    with pytest.raises(RecoverableConnectionError):
        kept.acks.flush()
    with pytest.raises(RecoverableConnectionError):
        kept.acks.ack(kept.channels[0], 2)
