"""Cutting a byte stream into what the proxy counts: AMQP frames, Redis commands.

A `Unit` is forwarded whole. A message takes several frames (the method, its
header, its body), so one unit begins it and another completes it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, Protocol

PREAMBLE = 8  # "AMQP", 0, 0, 9, 1: what a client sends before its first frame
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
METHODS = {
    (20, 20): "flow",
    (10, 40): "connect",
    (20, 10): "open",
    (60, 20): "consume",
    (60, 40): "publish",
    (60, 50): "return",
    (60, 60): "deliver",
    (60, 70): "get",
    (60, 71): "get-ok",
    (60, 80): "ack",
    (60, 90): "reject",
    (60, 120): "nack",
}
END = 0xCE
UNKNOWN = 1 << 60
"""The tag of no delivery."""
WITH_CONTENT = {"publish", "return", "deliver", "get-ok"}


class Unit(NamedTuple):
    data: bytes
    begins: str | None = None
    """The method, or command, of which this is the first part."""
    completes: str | None = None
    """The one of which this is the last."""
    about: bytes = b""
    """Its arguments, for telling one from another."""


class Splitter(Protocol):
    def feed(self, data: bytes) -> Iterator[Unit]:
        """Take in what was received; returns the units that are complete."""


class Chunks:
    """No structure at all."""

    def feed(self, data: bytes) -> Iterator[Unit]:
        yield Unit(data)


class Frames:
    """AMQP 0-9-1, one direction of a connection."""

    def __init__(self, from_client: bool) -> None:
        self._rest = b""
        self._preamble = PREAMBLE if from_client else 0
        self._from_client = from_client
        self._open: dict[int, tuple[str, bytes, int]] = {}  # by channel: method, arguments, bytes

    def feed(self, data: bytes) -> Iterator[Unit]:
        self._rest += data
        while unit := self._next():
            yield unit

    def _next(self) -> Unit | None:
        if self._preamble:
            frame = self._take(self._preamble)
            if frame:
                self._preamble = 0
            return frame and Unit(frame)
        if len(self._rest) < 7:
            return None
        kind, channel, size = struct.unpack_from(">BHI", self._rest)
        frame = self._take(7 + size + 1)
        if frame is None:
            return None
        assert frame[-1] == END, "not an AMQP frame"
        return self._unit(frame, kind, channel, frame[7:-1])

    def _take(self, size: int) -> bytes | None:
        if len(self._rest) < size:
            return None
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def _unit(self, frame: bytes, kind: int, channel: int, payload: bytes) -> Unit:
        if kind == METHOD:
            name = self._name(payload)
            if name in WITH_CONTENT:
                self._open[channel] = (name, payload, 0)
                return Unit(frame, name, None, payload)
            return Unit(frame, name, name, payload)
        if kind == HEARTBEAT:
            return Unit(frame, "heartbeat", "heartbeat")
        method, about, left = self._open.pop(channel)
        left = struct.unpack_from(">Q", payload, 4)[0] if kind == HEADER else left - len(payload)
        if not left:
            return Unit(frame, None, method, about)
        self._open[channel] = (method, about, left)
        return Unit(frame)

    def _name(self, payload: bytes) -> str | None:
        name = METHODS.get(struct.unpack_from(">HH", payload))
        return "confirm" if name == "ack" and not self._from_client else name


class Commands:
    """What a Redis client sends: arrays of strings; a unit is one command."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Unit]:
        self._rest += data
        while (end := self._end()) is not None:
            command, self._rest = self._rest[:end], self._rest[end:]
            name = command.split(b"\r\n", 3)[2].decode().upper()
            yield Unit(command, name, name, command)

    def _end(self) -> int | None:
        """Where the first command ends, if it is complete."""
        line = self._rest.find(b"\r\n")
        if line < 0:
            return None
        assert self._rest[:1] == b"*", "not a Redis command"
        position = line + 2
        for _ in range(int(self._rest[1:line])):
            line = self._rest.find(b"\r\n", position)
            if line < 0:
                return None
            position = line + 2 + int(self._rest[position + 1 : line]) + 2
        return position if position <= len(self._rest) else None


def closing(unit: Unit) -> bytes:
    """Return a frame for which RabbitMQ closes the channel of this one, which is a client's.

    It acknowledges what nobody was given.
    """
    channel = unit.data[1:3]
    acknowledged = struct.pack(">HHQB", 60, 80, UNKNOWN, 0)
    size = struct.pack(">I", len(acknowledged))
    return bytes([METHOD]) + channel + size + acknowledged + bytes([END])


def splitters(kind: str) -> tuple[Splitter, Splitter]:
    """For what the clients of such a broker send, and for what they are sent."""
    if kind == "rabbitmq":
        return Frames(from_client=True), Frames(from_client=False)
    return (Commands() if kind == "redis" else Chunks()), Chunks()
