"""The AMQP socket, drained in one go, whatever properties the messages have.

Kombu's reader hands on one delivery per turn of the event loop. A scheduler that is to choose
among queues needs to see what all of them have, so this one reads until the socket is empty.

A broker hands on what it was given, and text among it need not be UTF-8. py-amqp decodes the
properties as their frame arrives, and what it raises then ends a worker of Celery's, and the next
one. Here such a message has no properties, but for a header that says what is wrong: no task can be
made of it.
"""

import errno
from collections.abc import Callable
from typing import Any

from amqp import RecoverableConnectionError
from amqp.basic_message import Message
from amqp.serialization import decode_properties_basic

from celery_fair.headers import UNDECODED
from celery_fair.worker import patches

_HEADER = 2  # the kind of the frame that they are in
PROPERTIES = 12  # where they begin in its payload


def read_any_properties(connection: Any) -> None:
    """Have a connection of py-amqp's take in frames with properties that it cannot decode."""
    take: Callable[[tuple[int, int, bytes]], bool] = connection.on_inbound_frame

    def take_any(frame: tuple[int, int, bytes]) -> bool:
        try:
            return take(frame)
        except Exception:  # foreign bytes may fail in any way; raised again if they are others
            kind, channel, payload = frame
            replaced = _readable(payload) if kind == _HEADER else payload
            if replaced is payload:
                raise
        return take((kind, channel, replaced))

    patches.read_by(connection, take_any)


def _readable(payload: bytes) -> bytes:
    """Return a header's payload with other properties, if its own cannot be decoded."""
    try:
        decode_properties_basic(payload, PROPERTIES)
    except Exception as exc:  # noqa: BLE001 - foreign bytes may fail in any way
        instead: Any = Message(application_headers={UNDECODED: repr(exc)})
        return payload[:PROPERTIES] + bytes(instead._serialize_properties())
    return payload


_MOST = 500
"""Frames' worth of events per turn: timers, results and control commands wait no longer."""


class DrainingReader:
    """The event loop's callback for the broker's socket."""

    def __init__(self, connection: Any, hub: Any) -> None:
        self._connection = connection
        self._hub = hub

    def __call__(self) -> None:
        # A write that failed, of an acknowledgement say, has marked it; whose caller may have had
        # other worries. The socket stays readable, and nobody else will say so.
        if not self._connection.connected:
            raise RecoverableConnectionError("the broker's connection is lost")
        if not self._read():
            self._hub.call_soon(self._again)

    def _read(self) -> bool:
        """Take in what there is; return whether that was all."""
        drain = self._connection.drain_events
        for _ in range(_MOST):
            try:
                drain(timeout=0)
            except TimeoutError:
                return True
            except OSError as exc:
                if exc.errno in (errno.EAGAIN, errno.EINTR):
                    return True
                raise
        return False

    def _again(self) -> None:
        # The event loop may have been reset since, for another connection.
        if self._connection.connected:
            self()
