"""One connection to a broker that says what a test tells it to, ahead of being asked."""

from __future__ import annotations

import select
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Thread
from typing import Any

from amqp import spec
from amqp.transport import AMQP_PROTOCOL_HEADER
from kombu import Queue
from kombu.asynchronous import Hub
from kombu.transport.pyamqp import Connection

from celery_fair.core.dwrr import Flow
from celery_fair.core.window import RefillMeter
from celery_fair.worker.amqp_io.reader import DrainingReader
from celery_fair.worker.amqp_io.writer import AckWriter
from celery_fair.worker.fast_path.frames import BufferedReader, Frames
from celery_fair.worker.queues import amqp
from celery_fair.worker.queues.amqp import AmqpFeed
from tests.fast_path.wire import METHOD, deliver, frame, method
from tests.feeds import gate, ports

FRAME_MAX = 131_072
PATIENCE = 60
"""Seconds, for 30 megabytes too."""

_HANDSHAKE = b"".join(
    frame(METHOD, 0, payload)
    for payload in (
        method(spec.Connection.Start, "ooFSS", (0, 9, {}, "PLAIN", "en_US")),
        method(spec.Connection.Tune, "BlB", (2047, FRAME_MAX, 0)),
        method(spec.Connection.OpenOk, "s", ("",)),
    )
)


class Broker:
    """What is at the other end of a connection; it answers only what it has answered before."""

    def __init__(self, listener: socket.socket) -> None:
        self._socket, _ = listener.accept()
        self._socket.settimeout(PATIENCE)
        self.received(len(AMQP_PROTOCOL_HEADER))
        self._socket.sendall(_HANDSHAKE)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def say(self, channel: int, *payload: Any) -> None:
        self.send(frame(METHOD, channel, method(*payload)))

    def received(self, size: int) -> bytes:
        """The next bytes that the client has sent."""
        data = b""
        while len(data) < size:  # MSG_WAITALL does not wait on a socket that has a timeout
            piece = self._socket.recv(size - len(data))
            assert piece
            data += piece
        return data

    def received_until(self, end: bytes) -> bytes:
        """What the client has sent, up to what it ends with."""
        data = bytearray()
        while not data.endswith(end):
            piece = self._socket.recv(65536)
            assert piece
            data += piece
        return bytes(data)

    def close(self) -> None:
        self._socket.close()


@contextmanager
def connected() -> Iterator[tuple[Broker, Any]]:
    """A broker, and py-amqp's connection to it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        brokers: list[Broker] = []
        accepting = Thread(target=lambda: brokers.append(Broker(listener)))
        accepting.start()
        port = listener.getsockname()[1]
        connection = Connection(host=f"127.0.0.1:{port}", connect_timeout=PATIENCE)
        try:
            connection.connect()
        finally:
            accepting.join()
    [broker] = brokers
    try:
        yield broker, connection
    finally:
        connection.collect()
        broker.close()


class Worker:
    """The worker's end: its feeds, and what they were handed.

    `log` has everything in the order in which it came, by whom it came to.
    """

    def __init__(self, broker: Broker, connection: Any, fast: bool) -> None:
        self.broker = broker
        self.connection = connection
        self.hub = Hub()
        self.log: list[Any] = []
        self.frames = Frames(connection) if fast else None
        self.reader = (
            DrainingReader(connection, self.hub)
            if self.frames is None
            else BufferedReader(connection, self.hub, self.frames)
        )
        self.acks = AckWriter(connection, lambda: None)
        self.acks.write_through()
        self.feeds: dict[str, AmqpFeed] = {}
        self._subscribed: Counter[str] = Counter()
        self.sees: Callable[[Any], object] = seen

    def channel(self) -> Any:
        number = len(self.connection.channels)
        self.broker.say(number, spec.Channel.OpenOk, "S", ("",))
        channel = self.connection.channel()
        channel.events["basic_return"].add(
            lambda *args: self.log.append(("returned", args[0].code, args[-1].body))
        )
        return channel

    def feed(self, name: str) -> AmqpFeed:
        """A feed that is subscribed; its channel is the next one."""
        feed = AmqpFeed(
            Queue(name),
            self.channel(),
            Flow(name, 1.0),
            10,
            gate(),
            ports(
                lambda feed: self.log.append((feed.name, self.sees(feed.buffer[-1]))),
                lost=lambda feed: self.log.append(("lost", feed.name)),
                closed=lambda feed: self.log.append(("closed", feed.name)),
            ),
            accept=["json", "text/plain", "application/data"],
            meter=RefillMeter(),
            acks=self.acks,
            frames=self.frames,
        )
        self.feeds[name] = feed
        self.answer_subscription(feed)
        feed.open()
        return feed

    def answer_subscription(self, feed: AmqpFeed) -> None:
        """Let the broker answer a subscription that comes next."""
        number = feed.channel.channel_id
        self._subscribed[feed.name] += 1
        amqp._numbers = count(self._subscribed[feed.name])
        self.broker.say(number, spec.Basic.QosOk)
        tag = f"fair.{feed.name}.{self._subscribed[feed.name]}"
        self.broker.say(number, spec.Basic.ConsumeOk, "s", (tag,))

    def consumer(self, tag: str, callback: Callable[[Any], object] | None = None) -> Any:
        """A channel with a consumer that is no feed."""
        channel = self.channel()
        self.broker.say(channel.channel_id, spec.Basic.ConsumeOk, "s", (tag,))
        channel.basic_consume(
            "other",
            consumer_tag=tag,
            callback=callback or (lambda raw: self.log.append((tag, raw.body))),
        )
        return channel

    def read(self) -> None:
        """Read once what has come."""
        ready, _, _ = select.select([self.connection.sock], [], [], PATIENCE)
        assert ready
        self.reader()

    def read_all(self, channel: Any) -> None:
        """Read until a last delivery has come, to a channel that has a consumer "other"."""
        last = b"this is the last one"
        for kind, payload in deliver("other", 1, [last]):
            self.broker.send(frame(kind, channel.channel_id, payload))
        self.read_until(("other", last))

    def read_until(self, entry: Any) -> None:
        self.hub.add_reader(self.connection.sock, self.reader)
        while entry not in self.log[-1:]:
            self.hub.run_once()
        self.hub.remove_reader(self.connection.sock)

    def close(self) -> None:
        self.hub.close()
        self.hub.poller.close()


@contextmanager
def working(fast: bool) -> Iterator[Worker]:
    with connected() as (broker, connection):
        worker = Worker(broker, connection, fast)
        try:
            yield worker
        finally:
            worker.close()


def seen(message: Any) -> dict[str, Any]:
    """All that a handler can see of a message; as text, since NaN equals nothing."""
    return {
        name: repr(getattr(message, name))
        for name in (
            "headers",
            "properties",
            "delivery_info",
            "content_type",
            "content_encoding",
            "delivery_tag",
            "acknowledged",
            "subscription",
        )
    } | {
        "body": message.body,
        "errors": [error[0] for error in message.errors],
        "decoded": outcome(message.decode),
        "accept": message.accept,
        "channel": message.channel.channel_id,
    }


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or the type of what it raises."""
    try:
        return repr(call())
    except Exception as exc:  # noqa: BLE001 - any
        return type(exc)
