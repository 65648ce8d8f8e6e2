"""Messages that are asked for before they are needed, several in one write.

py-amqp's ``basic_get`` writes one question and waits for its answer. Here questions are written
together, with the acknowledgements that wait to be sent, and nobody waits for an answer that has
not come by the time that it is needed. A broker answers what comes by one channel in the order in
which it came.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from struct import Struct
from typing import Any

from amqp import RecoverableConnectionError, spec
from amqp.serialization import dumps
from amqp.transport import TCPTransport

from celery_fair.worker import host
from celery_fair.worker.wire.ack_writer import AckWriter
from celery_fair.worker.wire.channels import SharedChannel

__all__ = ["Questions"]

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
            host.answer_by(channel, self._got, self._got_none, self._counted)

    def ask(self, counted: str | None, wanted: Sequence[str]) -> None:
        """Ask for a message of each of these queues, one of them as often as it is named.

        Arguments:
            counted: a queue of which it is asked how many messages it has.

        Raises:
            amqp.ChannelError: the broker has closed the channel, if that is shared with others.
        """
        channel = self._channel
        if self._is_shared:
            if counted:
                self._count = channel.queue_declare(counted, passive=True).message_count
            self.answers.extend(channel.basic_get(name) for name in wanted)
            return
        number = channel.channel_id
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
            connection = self._channel.connection
            if connection is None:
                raise RecoverableConnectionError("connection already closed")
            self._read(connection)

    @staticmethod
    def _read(connection: Any) -> None:
        """Have py-amqp take in all that has arrived, or whatever arrives first.

        What has been read is not in the socket any more, and no event loop will tell of it.
        """
        transport: Any = connection.transport
        plain = isinstance(transport, TCPTransport)
        if plain and not transport._read_buffer:
            with suppress(OSError):  # py-amqp will see for itself
                host.keep(transport, transport.sock.recv(_SIZE))
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


def _method(channel: int, method: tuple[int, ...], kinds: str, args: tuple[Any, ...]) -> bytes:
    """Return a method's frame."""
    payload = dumps(kinds, args)
    return b"".join([_start(1, channel, 4 + len(payload), *method), payload, b"\xce"])


def _has_frame(buffer: bytes) -> bool:
    """Whether a frame is here as a whole."""
    return len(buffer) >= _AROUND and len(buffer) >= _AROUND + _size(buffer)[0]
