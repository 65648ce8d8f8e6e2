"""Deliveries put together from their frames, and decoded only when somebody looks.

py-amqp decodes the method and all headers of a delivery as its frames arrive, in the midst of
reading. Here the frames of a delivery are kept as they came and handed to the feed, which reads of
them what the window needs; the message decodes itself when it is dispatched. What was delivered and
never starts, because the worker stops say, is never decoded.

Frames of any other method, of other channels, and those of a delivery that the feed does not want
(of a subscription that is being replaced) go to py-amqp's own handler, in their order.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any

from amqp import spec
from amqp.exceptions import UnexpectedFrame

from celery_fair.worker import host
from celery_fair.worker.express.undecoded import undecoded_class

__all__ = ["Frames", "Taker"]

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
        host.read_by(connection, self)

    def register(self, channel: int, taker: Taker) -> None:
        """Hand over the deliveries on a channel from now on."""
        self._takers[channel] = taker

    def message_class(self, base: type) -> Any:
        """Return what makes a message of a delivery that is not decoded yet."""
        return undecoded_class(base)

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
        host.heard(self._connection)
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
