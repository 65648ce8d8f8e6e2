"""Properties that cannot be decoded: the message's trouble, not its connection's.

A broker hands on what it was given, and text among it need not be UTF-8. py-amqp decodes the
properties as their frame arrives, and what it raises then ends a worker of Celery's, and the next
one. Here such a message has no properties, but for a header that says what is wrong: no task can be
made of it.
"""

from collections.abc import Callable
from typing import Any

from amqp.basic_message import Message
from amqp.serialization import decode_properties_basic

from celery_fair.headers import UNDECODED
from celery_fair.worker import host

__all__ = ["read_any_properties"]

_HEADER = 2  # the kind of the frame that they are in
_PROPERTIES = 12  # where they begin


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

    host.read_by(connection, take_any)


def _readable(payload: bytes) -> bytes:
    """Return a header's payload with other properties, if its own cannot be decoded."""
    try:
        decode_properties_basic(payload, _PROPERTIES)
    except Exception as exc:  # noqa: BLE001 - foreign bytes may fail in any way
        instead: Any = Message(application_headers={UNDECODED: repr(exc)})
        return payload[:_PROPERTIES] + bytes(instead._serialize_properties())
    return payload
