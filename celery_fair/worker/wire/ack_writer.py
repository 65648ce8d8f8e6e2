"""Acknowledgements of one turn of the event loop, written to the socket in one go.

py-amqp writes every frame with a system call of its own, which is what an acknowledgement mostly
costs. Here an acknowledgement waits until the dispatcher runs next, in the same turn of the loop,
or until anything else is written to the connection: the broker sees all frames in the order in
which they were made.
"""

import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from amqp import RecoverableConnectionError, spec
from amqp.transport import TCPTransport

from celery_fair.worker import host

__all__ = ["AckWriter"]

_ACK = tuple(spec.Basic.Ack)
_MOST = 1000
"""Acknowledgements that wait at the most, some 20 kB."""

_frame = struct.Struct(">BHIHHQBB").pack

_Write = Callable[[int, int, Any, Any, Any], object]


class AckWriter:
    """Takes the place of a connection's ``frame_writer``.

    Arguments:
        connection: py-amqp's, which is connected.
        on_first: told when something waits; `flush` is to be called soon.
    """

    def __init__(self, connection: Any, on_first: Callable[[], object]) -> None:
        self._write: _Write = connection.frame_writer
        self._transport = transport = connection.transport
        self._send = transport.write
        can_wait = type(transport) is TCPTransport and hasattr(socket, "MSG_MORE")
        self._sock: Any = transport.sock if can_wait else None
        self._kept = False  # whether the operating system may have something yet
        self._lost = False  # writing has failed: nobody knows how much has arrived
        self._on_first = on_first
        self._waiting: list[bytes] = []
        self._besides: list[bytes] = []  # which nobody is told of
        self._lock = threading.RLock()  # a cold shutdown unsubscribes within the signal's handler
        self._most = _MOST
        host.write_by(connection, self)

    def __call__(self, type_: int, channel: int, method_sig: Any, args: Any, content: Any) -> None:
        """Write a frame, or keep it if it is an acknowledgement."""
        if method_sig != _ACK:
            self.flush()
            self._write(type_, channel, method_sig, args, content)
            return
        self._keep(struct.pack(">BHIHH", 1, channel, 4 + len(args), *_ACK) + args + b"\xce")

    def ack(self, channel: Any, tag: int, multiple: bool = False) -> None:
        """As a channel's own ``basic_ack``.

        Raises:
            RecoverableConnectionError: the channel is closed, or the connection lost; nothing was
                written of this one.
        """
        if channel.connection is None or self._lost:
            raise RecoverableConnectionError("connection already closed")
        self._keep(_frame(1, channel.channel_id, 13, *_ACK, tag, multiple, 0xCE))

    def keep(self, frames: bytes) -> None:
        """Send frames that were made elsewhere along with what waits, when `flush` is called.

        The broker is to have them then, whatever may follow.
        """
        with self._lock:
            self._besides.append(frames)

    def _keep(self, frame: bytes) -> None:
        with self._lock:
            self._waiting.append(frame)
            count = len(self._waiting)
        if count >= self._most:
            self.flush()
        elif count == 1:
            self._on_first()

    def flush(self, more: bool = False) -> None:
        """Write what waits.

        Arguments:
            more: whether the operating system may keep it for a moment (200 ms at the most on
                Linux), to send it along with what is written next. It sends it even if this process
                is killed.

        Raises:
            OSError: it has failed; how much has arrived is not known.
            RecoverableConnectionError: it had failed before.
        """
        with self._lock:
            if self._lost:
                raise RecoverableConnectionError("the connection was lost amid acknowledgements")
            try:
                self._write_out(more)
            except OSError:
                self._lost = True
                raise

    def _write_out(self, more: bool) -> None:
        waiting, self._waiting = self._waiting, []
        if self._besides:
            more, waiting = False, waiting + self._besides
            self._besides.clear()
        if waiting:
            self._kept = more and self._sock is not None
            data = waiting[0] if len(waiting) == 1 else b"".join(waiting)
            if self._sock is None:
                self._send(data)
            else:
                self._send_now(data, socket.MSG_MORE if more else 0)
        elif self._kept and not more:
            self._kept = False
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # sends it

    def _send_now(self, data: bytes, flags: int) -> None:
        try:
            self._sock.sendall(data, flags)
        except OSError:
            host.is_lost(self._transport)
            raise

    def write_through(self) -> None:
        """Keep nothing from now on: nobody may come by to flush it."""
        self._most = 1
        self.flush()
