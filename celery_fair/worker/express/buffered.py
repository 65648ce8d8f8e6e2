"""The AMQP socket, read as much at a time as there is."""

import socket
from struct import Struct
from typing import Any

from amqp.exceptions import UnexpectedFrame

from celery_fair.worker import host
from celery_fair.worker.express.frames import Frames
from celery_fair.worker.wire.reader import DrainingReader

__all__ = ["BufferedReader"]

_SIZE = 65536
_MOST_READS = 8
"""Of so many bytes: timers, results and control commands wait no longer."""

_frame_header = Struct(">BHI").unpack_from
_HEADER, _LEAST, _FRAME_END = 7, 8, 0xCE


class BufferedReader(DrainingReader):
    """Reads as much as there is with one call, where py-amqp makes nine for a delivery.

    What is left of the last frame stays in the transport's own buffer, where py-amqp looks first:
    it may read on at any time, when somebody waits for an answer.

    Arguments:
        frames: takes them in, in the place of the connection's ``on_inbound_frame``.
    """

    def __init__(self, connection: Any, hub: Any, frames: Frames) -> None:
        super().__init__(connection, hub)
        self._transport = connection.transport
        self._frames = frames

    def _read(self) -> bool:
        receive = self._transport.sock.recv
        for _ in range(_MOST_READS):
            try:
                data = receive(_SIZE, socket.MSG_DONTWAIT)
            except (BlockingIOError, InterruptedError):
                return True
            except OSError:
                host.is_lost(self._transport)
                raise
            if not data:
                host.is_lost(self._transport)
                raise OSError("Server unexpectedly closed connection")
            self._take_in(data)
            if len(data) < _SIZE:
                return True
        return False

    def _take_in(self, data: bytes) -> None:
        transport, frames = self._transport, self._frames
        buffer, start = transport._read_buffer + data, 0
        length = len(buffer)
        try:
            while length - start >= _LEAST:
                kind, channel, size = _frame_header(buffer, start)
                end = start + _HEADER + size
                if end >= length:
                    break
                if buffer[end] != _FRAME_END:
                    raise UnexpectedFrame(f"A frame ends with {buffer[end]:#04x}, not 0xce")
                frame = kind, channel, buffer[start + _HEADER : end]
                start = end + 1
                left = frames.take(frame)
                if left:  # whoever gets them may wait for an answer, and read on meanwhile
                    host.keep(transport, buffer[start:])
                    try:
                        for each in left:
                            frames.plain(each)
                    finally:
                        buffer, start = transport._read_buffer, 0
                        length = len(buffer)
        finally:
            host.keep(transport, buffer[start:])
