"""Publishing to RabbitMQ: frames written in blocks, confirmed in blocks.

py-amqp encodes some tens of header fields anew for each message, which limits
it to a few thousand a second. So the properties are encoded once, and the
three frames of a message are put together here (AMQP 0-9-1, 2.3.5).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import amqp
from kombu.utils.url import parse_url

from tests.publishing.message import ID, Job, Template, blocks

BLOCK = 500
"""Messages in one write."""
UNCONFIRMED = 20_000
"""Messages sent ahead of the broker's confirmations, at most."""
PATIENCE = 60
"""Seconds that the broker may block us: it does so to fast publishers."""

METHOD, HEADER, BODY = 1, 2, 3
BASIC_CLASS, PUBLISH = 60, 40


def publish_amqp(
    url: str,
    queues: Iterable[str],
    jobs: Iterator[Job],
    template: Template,
    queue_arguments: Mapping[str, Any],
) -> None:
    with _connection(url) as connection, connection.channel() as channel:
        for queue in queues:
            channel.queue_declare(queue, durable=True, auto_delete=False, arguments=queue_arguments)
        outstanding = Confirmations(channel)
        frames = _framing(template, channel.channel_id)
        for block in blocks(jobs, BLOCK):
            connection.transport.write(b"".join(map(frames, block)))
            outstanding.sent(len(block))
            outstanding.wait(UNCONFIRMED)
        outstanding.wait(0)


def publish_header(channel: Any, queue: str, properties: bytes, body: bytes) -> None:
    """Publish one message whose properties are given as they go over the wire, whatever they are.

    When this returns, the broker has taken it, or has closed the connection.
    """
    publish = struct.pack(">HHHBB", BASIC_CLASS, PUBLISH, 0, 0, len(queue)) + queue.encode() + b"\0"
    header = struct.pack(">HHQ", BASIC_CLASS, 0, len(body)) + properties
    frames = [(METHOD, publish), (HEADER, header), *([(BODY, body)] if body else [])]
    channel.connection.transport.write(
        b"".join(_frame(kind, channel.channel_id, payload) for kind, payload in frames)
    )
    channel.queue_declare(queue, passive=True)


def _connection(url: str) -> amqp.Connection:
    parts = parse_url(url)
    return amqp.Connection(
        host=f"{parts['hostname']}:{parts['port']}",
        userid=parts["userid"],
        password=parts["password"],
        virtual_host=parts["virtual_host"] or "/",
        write_timeout=PATIENCE,
        # The default of one second ends a connection that the broker blocks.
        socket_settings=(
            {socket.TCP_USER_TIMEOUT: 1000 * PATIENCE}
            if hasattr(socket, "TCP_USER_TIMEOUT")
            else {}
        ),
    )


class Confirmations:
    """Counts what the broker has still to confirm on a channel."""

    def __init__(self, channel: amqp.Channel) -> None:
        self._connection = channel.connection
        self._sent = self._confirmed = 0
        self._alone: set[int] = set()
        channel.confirm_select()
        channel.events["basic_ack"].add(self._on_ack)
        channel.events["basic_nack"].add(self._on_nack)

    def sent(self, count: int) -> None:
        self._sent += count

    def wait(self, at_most: int) -> None:
        """Block until at most so many messages are unconfirmed."""
        while self._sent - self._confirmed - len(self._alone) > at_most:
            self._connection.drain_events(timeout=PATIENCE)

    def _on_ack(self, tag: int, multiple: bool) -> None:
        if multiple:
            self._confirmed = max(self._confirmed, tag)
            self._alone = {other for other in self._alone if other > tag}
        else:
            self._alone.add(tag)

    def _on_nack(self, tag: int, multiple: bool) -> None:
        raise RuntimeError(f"the broker refused message {tag} (multiple={multiple})")


def _framing(template: Template, channel: int) -> Callable[[Job], bytes]:
    """Returns a function that encodes one message as AMQP frames."""
    encoded = _encoded_properties(template)
    placeholder = ID.encode()

    def frames(job: Job) -> bytes:
        queue = job.queue.encode()
        method = struct.pack(">HHHBB", BASIC_CLASS, PUBLISH, 0, 0, len(queue)) + queue + b"\0"
        header = struct.pack(">HHQ", BASIC_CLASS, 0, len(job.body))
        header += encoded.replace(placeholder, job.id.encode())
        parts = ((METHOD, method), (HEADER, header), (BODY, job.body))
        return b"".join(_frame(kind, channel, payload) for kind, payload in parts)

    return frames


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def _encoded_properties(template: Template) -> bytes:
    properties = {
        "content_type": "application/json",
        "content_encoding": "utf-8",
    } | template.properties
    message = amqp.Message("", application_headers=template.headers, **properties)
    return bytes(message._serialize_properties())
