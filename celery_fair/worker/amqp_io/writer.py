"""Acknowledgements of one turn of the event loop, and questions, written to the socket in one go.

py-amqp writes every frame with a system call of its own, which is what an acknowledgement mostly
costs. Here an acknowledgement waits until the dispatcher runs next, in the same turn of the loop,
or until anything else is written to the connection: the broker sees all frames in the order in
which they were made.

py-amqp's ``basic_get`` writes one question and waits for its answer. Here questions are written
together, with the acknowledgements that wait to be sent, and nobody waits for an answer that has
not come by the time that it is needed. A broker answers what comes by one channel in the order in
which it came.
"""

import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from struct import Struct
from typing import Any

from amqp import RecoverableConnectionError, spec
from amqp.serialization import dumps
from amqp.transport import TCPTransport

from celery_fair.worker import patches
from celery_fair.worker.amqp_io.channels import SharedChannel

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
        patches.write_by(connection, self)

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
        if self._lost:
            raise RecoverableConnectionError("the connection was lost amid acknowledgements")
        self._keep(_frame(1, _open(channel).channel_id, 13, *_ACK, tag, multiple, 0xCE))

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
            patches.is_lost(self._transport)
            raise

    def write_through(self) -> None:
        """Keep nothing from now on: nobody may come by to flush it."""
        self._most = 1
        self.flush()


_SIZE = 65536
_start = Struct(">BHIHH").pack
_size = Struct(">3xI").unpack_from  # of a frame, beside its header and its end
_AROUND = 8

_GET, _DECLARE = tuple(spec.Basic.Get), tuple(spec.Queue.Declare)


class Questions:
    """Of one channel, on which nobody else calls ``basic_get``.

    Arguments:
        channel: kombu's.
        acks: writes to its connection.

    Attributes:
        answers: py-amqp's messages, None for each that was not there; to be taken from the left.
    """

    def __init__(self, channel: Any, acks: AckWriter) -> None:
        self._channel = channel
        self._acks = acks
        self._counts = 0  # that are on their way
        self.answers: deque[Any] = deque()
        self._count: int | None = None
        self._is_shared = isinstance(channel, SharedChannel)  # its other users have answers, too
        if not self._is_shared:
            patches.answer_by(channel, self._got, self._got_none, self._counted)

    def ask(self, counted: str | None, wanted: Sequence[str]) -> None:
        """Ask for a message of each of these queues, one of them as often as it is named.

        Arguments:
            counted: a queue of which it is asked how many messages it has.

        Raises:
            amqp.ChannelError: the broker has closed the channel, if that is shared with others.
            amqp.RecoverableConnectionError: it was closed before, or its connection was.
        """
        channel = self._channel
        if self._is_shared:
            if counted:
                self._count = channel.queue_declare(counted, passive=True).message_count
            self.answers.extend(channel.basic_get(name) for name in wanted)
            return
        number = _open(channel).channel_id
        asked = []
        if counted:
            self._counts += 1
            passive: tuple[Any, ...] = (0, counted, True, False, False, False, False, {})
            asked.append(_method(number, _DECLARE, "BsbbbbbF", passive))
        asked += [_method(number, _GET, "Bsb", (0, name, False)) for name in wanted]
        self._acks.keep(b"".join(asked))

    def take_count(self) -> int | None:
        """Return, once, how many messages were counted last; None if none were since."""
        count, self._count = self._count, None
        return count

    def wait(self) -> None:
        """Wait until there is an answer at least, if there is none.

        Raises:
            amqp.RecoverableConnectionError: the broker has closed the channel.
            Exception: the connection is lost.
        """
        if not self.answers:
            self._acks.flush()
        while not self.answers:
            self._read(_open(self._channel).connection)

    @staticmethod
    def _read(connection: Any) -> None:
        """Have py-amqp take in all that has arrived, or whatever arrives first.

        What has been read is not in the socket any more, and no event loop will tell of it.
        """
        transport: Any = connection.transport
        plain = isinstance(transport, TCPTransport)
        if plain and not transport._read_buffer:
            with suppress(OSError):  # py-amqp will see for itself
                patches.keep(transport, transport.sock.recv(_SIZE))
        connection.drain_events()
        while _has_frame(transport._read_buffer):  # so that reading it waits for nothing
            connection.blocking_read()

    def _got(self, *told: Any) -> None:
        self.answers.append(self._channel._on_get_ok(*told))  # as `basic_get` has it

    def _got_none(self, *_: Any) -> None:
        self.answers.append(None)

    def _counted(self, queue: str, messages: int, consumers: int) -> None:
        if self._counts:
            self._counts -= 1
            self._count = messages


def _open(channel: Any) -> Any:
    """Return a channel that was not closed, neither by the broker nor with its connection.

    Raises:
        RecoverableConnectionError: it was.
    """
    if channel.connection is None:
        raise RecoverableConnectionError("connection already closed")
    return channel


def _method(channel: int, method: tuple[int, ...], kinds: str, args: tuple[Any, ...]) -> bytes:
    """Return a method's frame."""
    payload = dumps(kinds, args)
    return b"".join([_start(1, channel, 4 + len(payload), *method), payload, b"\xce"])


def _has_frame(buffer: bytes) -> bool:
    """Whether a frame is here as a whole."""
    return len(buffer) >= _AROUND and len(buffer) >= _AROUND + _size(buffer)[0]
