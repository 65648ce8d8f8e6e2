"""The AMQP socket, read as much at a time as there is, and deliveries decoded when somebody looks.

py-amqp decodes the method and all headers of a delivery as its frames arrive, in the midst of
reading. Here the frames of a delivery are kept as they came and handed to the feed, which reads of
them what the window needs; the message decodes itself when it is dispatched. What was delivered and
never starts, because the worker stops say, is never decoded.

Frames of any other method, of other channels, and those of a delivery that the feed does not want
(of a subscription that is being replaced) go to py-amqp's own handler, in their order.
"""

import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from struct import Struct
from types import SimpleNamespace
from typing import Any

from amqp import spec
from amqp.exceptions import UnexpectedFrame

from celery_fair.worker import patches
from celery_fair.worker.amqp_io.reader import PROPERTIES, DrainingReader
from celery_fair.worker.fast_path.properties import decode_properties

_TAG = 5  # where the consumer's tag begins in a method's; its length is before it


class _Undecoded:
    """Goes before a class of kombu's AMQP messages, whose own constructor is called late.

    Until then nothing is set but the channel, the tag and whether it is settled. Kombu's messages
    have slots, and Python asks ``__getattr__`` for one that is not set.

    What cannot be decoded becomes a message with no headers, a body as it came, and the reason
    among its ``errors``, which the worker refuses.

    Arguments:
        accept: the content types that may be decoded.
    """

    def __init__(  # kombu's is called by `_look_into`
        self, channel: Any, tag: int, method: bytes, header: bytes, body: bytes, accept: Any
    ) -> None:
        self.channel = channel
        self.delivery_tag = tag
        self._state = "RECEIVED"
        self._frames = method, header, body, accept

    def __getattr__(self, name: str) -> Any:
        frames = self.__dict__.pop("_frames", None)
        if frames is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._look_into(*frames)
        return getattr(self, name)

    def _look_into(self, method: bytes, header: bytes, body: bytes, accept: Any) -> None:
        state = self._state
        info: dict[str, Any] = {"delivery_tag": self.delivery_tag}
        properties: dict[str, Any] = {}
        text: str | bytes = body
        try:
            info = _delivery_info(method, self.delivery_tag)
            properties = decode_properties(header, PROPERTIES)
            text = _text(body, properties.get("content_encoding"))
        except Exception:  # noqa: BLE001 - foreign bytes may fail in any way; told to who looks
            self.errors = [sys.exc_info()]
        raw = SimpleNamespace(
            body=text,
            delivery_info=info,
            delivery_tag=self.delivery_tag,
            properties=properties,
        )
        super().__init__(raw, channel=self.channel, accept=accept)  # type: ignore[call-arg]
        self._state = state


def _text(body: bytes, encoding: str | None) -> str | bytes:
    """Decode a body as py-amqp does, which some serializers rely on; what cannot be stays as is."""
    if encoding:
        with suppress(Exception):
            return body.decode(encoding)
    return body or ""


def _delivery_info(method: bytes, delivery_tag: int) -> dict[str, Any]:
    """Decode the arguments of ``basic.deliver``."""
    flags = _TAG + method[_TAG - 1] + 8
    key = flags + 2 + method[flags + 1]
    return {
        "consumer_tag": method[_TAG : flags - 8].decode("utf-8", "surrogatepass"),
        "delivery_tag": delivery_tag,
        "redelivered": method[flags] & 1 == 1,
        "exchange": method[flags + 2 : key].decode("utf-8", "surrogatepass"),
        "routing_key": method[key + 1 : key + 1 + method[key]].decode("utf-8", "surrogatepass"),
    }


Frame = tuple[int, int, bytes]

Taker = Callable[[bytes, bytes, bytes], bool]
"""Takes a delivery (method, header, body), or returns False to leave it to py-amqp."""

_METHOD, _HEADER, _BODY = 1, 2, 3
_DELIVER = Struct(">HH").pack(*spec.Basic.Deliver)
_body_size = Struct(">Q").unpack_from


class Frames:
    """Takes the place of a connection's ``on_inbound_frame``, which is a public seam.

    Arguments:
        connection: py-amqp's, which is connected.

    Attributes:
        plain: py-amqp's own handler.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.plain: Callable[[Frame], bool] = connection.on_inbound_frame
        self._takers: dict[int, Taker] = {}
        self._begun: dict[int, _Delivery] = {}
        patches.read_by(connection, self)

    def register(self, channel: int, taker: Taker) -> None:
        """Hand over the deliveries on a channel from now on."""
        self._takers[channel] = taker

    def message_class(self, base: type) -> Any:
        """Return what makes a message of a delivery that is not decoded yet."""
        return type(base.__name__, (_Undecoded, base), {})

    def forget(self, channel: int) -> None:
        """The channel is closed; another may get its number."""
        self._takers.pop(channel, None)
        self._begun.pop(channel, None)

    def __call__(self, frame: Frame) -> bool:
        """Take in a frame, as py-amqp's own handler; return whether it has completed something."""
        left = self.take(frame)
        if not left:
            return left is not None
        return [self.plain(each) for each in left][-1]

    def take(self, frame: Frame) -> Sequence[Frame] | None:
        """Take in a frame, without calling anything that might wait for an answer.

        Returns the frames that are left for `plain`: none of a delivery that is complete; and None
        while it is not.

        Raises:
            UnexpectedFrame: it does not belong where it came.
        """
        kind, channel, payload = frame
        taker = self._takers.get(channel)
        if taker is None:
            return (frame,)
        delivery = self._begun.get(channel)
        if delivery is None:
            if kind != _METHOD or not payload.startswith(_DELIVER):
                return (frame,)
            self._begun[channel] = _Delivery(payload)
            return None
        if kind != delivery.expects:
            raise UnexpectedFrame(f"Received frame {kind} while expecting {delivery.expects}")
        patches.heard(self._connection)
        if not delivery.add(payload):
            return None
        del self._begun[channel]
        taken = taker(delivery.method, delivery.header, delivery.body)
        return () if taken else delivery.frames(channel)


class _Delivery:
    """One whose frames are coming in."""

    __slots__ = ("_chunks", "_missing", "expects", "header", "method")

    def __init__(self, method: bytes) -> None:
        self.expects = _HEADER
        self.method = method
        self.header = b""
        self._missing = 0
        self._chunks: list[bytes] = []

    def add(self, payload: bytes) -> bool:
        """Take in the frame that was expected; return whether it was the last one."""
        if self.expects == _HEADER:
            self.header, self.expects = payload, _BODY
            (self._missing,) = _body_size(payload, 4)
        else:
            self._chunks.append(payload)
            self._missing -= len(payload)
        return self._missing <= 0

    @property
    def body(self) -> bytes:
        """All of it."""
        chunks = self._chunks
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def frames(self, channel: int) -> list[Frame]:
        """Return the frames as they came."""
        bodies = [(_BODY, channel, chunk) for chunk in self._chunks]
        return [(_METHOD, channel, self.method), (_HEADER, channel, self.header), *bodies]


_SIZE = 65536
_MOST_READS = 8
"""Of so many bytes: timers, results and control commands wait no longer."""

_frame_header = Struct(">BHI").unpack_from
_HEADER_SIZE, _LEAST, _FRAME_END = 7, 8, 0xCE


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
                patches.is_lost(self._transport)
                raise
            if not data:
                patches.is_lost(self._transport)
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
                end = start + _HEADER_SIZE + size
                if end >= length:
                    break
                if buffer[end] != _FRAME_END:
                    raise UnexpectedFrame(f"A frame ends with {buffer[end]:#04x}, not 0xce")
                frame = kind, channel, buffer[start + _HEADER_SIZE : end]
                start = end + 1
                left = frames.take(frame)
                if left:  # whoever gets them may wait for an answer, and read on meanwhile
                    patches.keep(transport, buffer[start:])
                    try:
                        for each in left:
                            frames.plain(each)
                    finally:
                        buffer, start = transport._read_buffer, 0
                        length = len(buffer)
        finally:
            patches.keep(transport, buffer[start:])
