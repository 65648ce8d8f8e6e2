"""Acknowledgements of one turn of the event loop, written to the socket in one go.

py-amqp writes every frame with a system call of its own, which is what an acknowledgement mostly
costs. Here an acknowledgement waits until the dispatcher runs next, in the same turn of the loop,
or until anything else is written to the connection: the broker sees all frames in the order in
which they were made.
"""

import struct
import threading
from collections.abc import Callable
from typing import Any

from amqp import spec

__all__ = ["AckWriter"]

_ACK = tuple(spec.Basic.Ack)
_MOST = 1000
"""Acknowledgements that wait at the most, some 20 kB."""

_Write = Callable[[int, int, Any, Any, Any], object]


class AckWriter:
    """Takes the place of a connection's ``frame_writer``.

    Arguments:
        connection: py-amqp's, which is connected.
        on_first: told when something waits; `flush` is to be called soon.
    """

    def __init__(self, connection: Any, on_first: Callable[[], object]) -> None:
        self._write: _Write = connection.frame_writer
        self._send = connection.transport.write
        self._on_first = on_first
        self._waiting: list[bytes] = []
        self._lock = threading.RLock()  # a cold shutdown unsubscribes within the signal's handler
        self._most = _MOST
        connection.frame_writer = self

    def __call__(self, type_: int, channel: int, method_sig: Any, args: Any, content: Any) -> None:
        """Write a frame, or keep it if it is an acknowledgement."""
        if method_sig != _ACK:
            self.flush()
            self._write(type_, channel, method_sig, args, content)
            return
        frame = struct.pack(">BHIHH", 1, channel, 4 + len(args), *_ACK) + args + b"\xce"
        with self._lock:
            self._waiting.append(frame)
            count = len(self._waiting)
        if count >= self._most:
            self.flush()
        elif count == 1:
            self._on_first()

    def flush(self) -> None:
        """Write what waits."""
        if self._waiting:
            with self._lock:
                waiting, self._waiting = self._waiting, []
                self._send(b"".join(waiting))

    def write_through(self) -> None:
        """Keep nothing from now on: nobody may come by to flush it."""
        self._most = 1
        self.flush()
