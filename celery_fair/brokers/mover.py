"""Moving a message that is held here to where it belongs, so that it is neither lost nor left.

On an AMQP broker a copy is published on a connection of its own, confirmed, and then the message is
acknowledged: a worker that is killed in between leaves both, as does a broker that closes the
message's channel just then. The connection is another because a broker that is out of memory or
disk stops reading from one that publishes, acknowledgements included. On Redis one script does
both. The other virtual transports confirm nothing; there the copy is as safe as any message.
"""

import logging
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib.resources import files
from threading import RLock
from time import monotonic, sleep
from typing import Any, NamedTuple
from uuid import uuid4

from amqp import AccessRefused, AMQPError, NotFound, PreconditionFailed
from amqp.exceptions import MessageNacked
from kombu.utils.json import dumps

from celery_fair.brokers.payload import is_redelivered
from celery_fair.brokers.redis import Commands, book_settled
from celery_fair.dead_letters.death import (
    dead_letter_queue,
    described_properties,
    properties_of,
    with_headers,
)

__all__ = [
    "AmqpMover",
    "Mover",
    "NotTakenError",
    "RedisMover",
    "VirtualMover",
    "dead_payload",
    "queue_of",
    "raw_payload",
]

logger = logging.getLogger(__name__)

_CONFIRM_TIMEOUT = 5.0
"""Seconds for the broker to confirm a message: one under a memory alarm never does."""

_PROBE_TIMEOUT = 2.0
"""Seconds for it to confirm that it takes messages at all."""

_JUST = 0.05
"""Seconds for which a broker that has taken a message will take another: it is not asked first."""

_REST = 10.0
"""Seconds for which a broker that has not taken a message is left in peace."""

_PATIENCE = 10.0
"""Seconds for a broker to take back, at the end, what it does not take now."""

_WAITING = "Waiting for the broker to take back what has not started"

_NO_ROUTE = 312
"""With this RabbitMQ returns a message that no queue would have got."""

_PAUSE = 0.2
"""Seconds between two tries."""


class NotTakenError(Exception):
    """The broker has not taken a message, or has not said so; that is all that has failed.

    If it may have taken it, the message counts as redelivered from then on: a copy may be there.
    """


_AT_ONCE = 100
"""Messages that are given back on Redis in one round trip."""


_OF_A_FRAME = 20
"""Bytes of a frame of properties that are none."""

_OF_THE_MESSAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    PreconditionFailed,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
"""What is raised for a message that cannot be published as it is, however often it is tried."""


class Mover(ABC):
    """For one connection of a worker's.

    Arguments:
        dead_letters: the queue, and exchange, of the app's dead letters.
        connection: the worker's.
        flush: sends acknowledgements that are kept to be sent together.
    """

    in_place = False
    """Whether what is given back stands where it stood."""

    def __init__(
        self, dead_letters: str, connection: Any, flush: Callable[[], object] = lambda: None
    ) -> None:
        self._dead_letters = dead_letters
        self._consuming = connection
        self._flush = flush
        self._lock = RLock()  # a task in a greenlet of its own may have its message rejected
        self._moving = False

    def bury(self, message: Any, headers: Mapping[str, Any]) -> bool:
        """Move a message to the dead letters, with more headers; False if it is held here no more.

        Raises:
            Exception: whatever the transport does; the message is where it was.
        """
        with self._alone():
            return self._move(message, headers, self._dead_letters)

    def give_back(self, message: Any, headers: Mapping[str, Any]) -> None:
        """Return a message to its queue, with more headers, as one that nobody has been given."""
        with self._alone():
            self._move(message, headers, "")

    def move(self, message: Any, queue: str) -> None:
        """Move a message to another queue, which is there; that it was delivered before, it says.

        Raises:
            NotTakenError: the broker has not taken it; the message is where it was.
        """
        raise TypeError(f"{type(self).__name__} moves messages to their own queues alone")

    def last(self) -> None:
        """The worker stops: what cannot be given back now is not given back at all."""

    def give_back_all(self, messages: Sequence[Any]) -> None:
        """Do so with several of one queue, in their order.

        Raises:
            Exception: whatever the transport does; those that come after are not given back.
        """
        for message in messages:
            self.give_back(message, {})

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One move after the other; none within another, as a signal's handler would have it."""
        with self._lock:
            if self._moving:
                raise ConnectionError("a message is being moved, which this has interrupted")
            self._moving = True
            try:
                yield
            finally:
                self._moving = False

    @abstractmethod
    def _move(self, message: Any, headers: Mapping[str, Any], exchange: str) -> bool:
        """Publish a copy of a message, under its queue's name, and then acknowledge it."""

    def close(self) -> None:
        """Leave nothing open."""


class _Copy(NamedTuple):
    """Of a message: which headers it has besides, and where it goes."""

    headers: Mapping[str, Any]
    exchange: str
    """Of the dead letters; "" for a queue."""
    routing_key: str


class AmqpMover(Mover):
    """Publishes with the broker's confirmation."""

    _connection: Any = None
    _channel: Any = None
    _rests_until = _letters_rest_until = _patient_until = _taken_at = 0.0
    _waited = _sent = False

    def last(self) -> None:
        """Have patience with the broker: an alarm may end, and a queue have room again."""
        self._patient_until = monotonic() + _PATIENCE

    def move(self, message: Any, queue: str) -> None:
        with self._alone():
            self._moved(message, _Copy(_history(message), "", queue))

    def _move(self, message: Any, headers: Mapping[str, Any], exchange: str) -> bool:
        headers = headers if exchange else {**_history(message), **headers}
        return self._moved(message, _Copy(headers, exchange, queue_of(message)))

    def _moved(self, message: Any, copy: "_Copy") -> bool:
        if not copy.exchange and not _is_still_here(message):
            return False  # the broker has it back, and a copy would start besides
        while not self._published(message, copy):
            sleep(_PAUSE)
        message.ack()
        self._flush()
        return True

    def _published(self, message: Any, copy: "_Copy") -> bool:
        """Publish a copy; or return False if there is none at the broker, and time to try again."""
        exchange = copy.exchange
        patient = not exchange and monotonic() < self._patient_until
        rests_until = max(self._rests_until, self._letters_rest_until if exchange else 0.0)
        if monotonic() < rests_until and not patient:
            raise NotTakenError("the broker took no message a moment ago")
        ready = self._sent = False
        try:
            self._be_ready()
            ready = True
            self._publish(message, copy)
            self._taken_at = monotonic()
        except Exception as exc:
            self._drop()  # a late confirmation must not be taken for the next
            if self._sent and not _is_refusal(exc):
                message.delivery_info["redelivered"] = True  # a copy of it may be there
            if patient and (not ready or isinstance(exc, MessageNacked)):
                if not self._waited:
                    self._waited = True
                    logger.warning("%s: %r, %g s at the most", _WAITING, exc, _PATIENCE)
                return False
            if exchange:
                self._letters_rest_until = monotonic() + _REST
            raise NotTakenError(repr(exc)) from exc
        return True

    def _be_ready(self) -> None:
        """Have a connection on which the broker takes messages now.

        Raises:
            Exception: whatever it does instead, which is not tried again for a while.
        """
        try:
            if self._channel is None or not (self._has_just_taken or self._is_open()):
                self._open()
                self._probe()
        except Exception:  # whatever it is, the next move need not find it out again; re-raised
            self._rests_until = monotonic() + _REST
            raise

    @property
    def _has_just_taken(self) -> bool:
        """Whether the last message was taken so short a time ago that the next one will be."""
        return monotonic() - self._taken_at < _JUST

    def _is_open(self) -> bool:
        """Whether the connection still works; it may have been cut while it was idle."""
        try:
            self._probe()
        except TimeoutError:
            raise
        except self._consuming.connection_errors:
            self._drop()
            return False
        return True

    def _probe(self) -> None:
        """Publish what is routed nowhere, twice.

        Under an alarm RabbitMQ takes one message from a connection and then reads no more of it
        until the alarm is over, when it takes all that has come: each try with the message itself
        would leave another copy.
        """
        nothing = self._channel.prepare_message(b"")
        key = f"celery-fair-probe-{uuid4()}"
        try:
            for _ in range(2):
                self._channel.basic_publish_confirm(
                    nothing, exchange="", routing_key=key, confirm_timeout=_PROBE_TIMEOUT
                )
        except AccessRefused:  # an answer, too
            self._channel = self._connection.channel()
            self._channel.confirm_select()

    def _publish(self, message: Any, copy: "_Copy") -> None:
        try:
            self._send_whole(message, copy)
        except _OF_THE_MESSAGE as exc:
            if not copy.exchange:
                raise
            logger.warning("A dead letter tells of its headers only, for %r", exc)
            self._drop()
            self._be_ready()
            self._send(message, described_properties(message, copy.headers), copy)

    def _send_whole(self, message: Any, copy: "_Copy") -> None:
        made = properties_of(message, copy.headers, dead=bool(copy.exchange))
        try:
            self._send(message, made, copy)
        except PreconditionFailed:  # of the message, then it comes again; or of the channel
            if not copy.exchange:  # a copy may be there, and would start besides another
                raise
            self._drop()
            self._be_ready()
            self._send(message, made, copy)

    def _send(self, message: Any, made: dict[str, Any], copy: "_Copy") -> None:
        raw = self._channel.prepare_message(_bytes_of(message), **made)
        size, most = len(raw._serialize_properties()), self._channel.connection.frame_max
        if size > most - _OF_A_FRAME:  # the broker would close the connection
            raise ValueError(f"its properties have {size} bytes, and a frame {most}")
        self._sent = True
        self._channel.basic_publish_confirm(
            raw,
            exchange=copy.exchange,
            routing_key=copy.routing_key,
            mandatory=True,
            confirm_timeout=_CONFIRM_TIMEOUT,
        )

    def _open(self) -> None:
        self._connection = self._consuming.clone(heartbeat=0)
        channel = self._connection.channel()
        try:
            dead_letter_queue(self._dead_letters)(channel).declare()
        except (AccessRefused, PreconditionFailed) as exc:  # somebody else's; it may be there
            logger.warning("Cannot declare the dead letters %s: %s", self._dead_letters, exc)
            channel = self._connection.channel()
        channel.confirm_select()
        self._channel = channel

    def _drop(self) -> None:
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            connection.collect()

    def close(self) -> None:
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            connection.release()


class VirtualMover(Mover):
    """One of kombu's emulated brokers: on the message's own channel.

    Where it has no fanout, what is published to such an exchange is lost without a word.
    """

    def _move(self, message: Any, headers: Mapping[str, Any], exchange: str) -> bool:
        channel = message.channel
        dead_letter_queue(self._dead_letters)(channel).declare()
        headers = headers if exchange else {**_history(message), **headers}
        made = properties_of(message, headers, dead=bool(exchange))
        copy = channel.prepare_message(message.body, **made)
        if exchange and not channel.supports_fanout:
            channel.basic_publish(copy, "", exchange)  # the queue has the exchange's name
        else:
            channel.basic_publish(copy, exchange, queue_of(message))
        message.ack()
        return True


class RedisMover(Mover):
    """By a script that takes a message from those held and puts it in a list, in one step."""

    in_place = True  # kombu's way to requeue puts it behind all others
    _declared = False

    def give_back_all(self, messages: Sequence[Any]) -> None:
        for first in range(0, len(messages), _AT_ONCE):
            some = messages[first : first + _AT_ONCE]
            with self._alone():
                send = Commands(some[0].channel)
                send.all([self._command(send, message, {}, "") for message in some])
                for message in some:
                    book_settled(message)

    def _move(self, message: Any, headers: Mapping[str, Any], exchange: str) -> bool:
        send = Commands(message.channel)
        moved = send(*self._command(send, message, headers, exchange))
        book_settled(message)
        return bool(moved)

    def _command(
        self, send: Commands, message: Any, headers: Mapping[str, Any], exchange: str
    ) -> tuple[Any, ...]:
        queue = queue_of(message)
        if exchange:
            self.declare(message.channel)
            to, push = send.lists(exchange)[0], "LPUSH"
            payload = dead_payload(message._raw, headers, exchange, queue)
        else:
            changed = with_headers(message._raw.get("headers"), headers)
            payload = {**message._raw, "headers": changed}
            to, push = send.list_of(queue, message._raw), "RPUSH"
            if getattr(message, "turn", None) is not None:  # to be sorted anew
                payload["properties"] = {**payload["properties"], "ahead": True}
        tag = message.delivery_tag
        return "EVAL", self._script, 3, *send.unacked, to, tag, dumps(payload), push

    def bury_raw(self, channel: Any, raw: bytes, headers: Mapping[str, Any]) -> None:
        """Put what is no message at all among the dead letters, as a message's body."""
        self.declare(channel)
        send = Commands(channel)
        payload = raw_payload(channel, raw, headers, self._dead_letters)
        send("LPUSH", send.lists(self._dead_letters)[0], dumps(payload))

    def declare(self, channel: Any) -> None:
        """Declare the queue of dead letters, once."""
        if not self._declared:
            dead_letter_queue(self._dead_letters)(channel).declare()
            self._declared = True

    @cached_property
    def _script(self) -> str:
        return files("celery_fair.brokers").joinpath("move.lua").read_text()


def _history(message: Any) -> dict[str, Any]:
    """Return headers which say that a message was handed out before: a copy does not show it."""
    return {"redelivered": True} if is_redelivered(message) else {}


def _is_refusal(exc: Exception) -> bool:
    """Whether a broker has said so that it does not have what was published."""
    returned = isinstance(exc, AMQPError) and exc.reply_code == _NO_ROUTE
    return returned or isinstance(exc, AccessRefused | MessageNacked | NotFound)


def dead_payload(
    raw: Mapping[str, Any], headers: Mapping[str, Any], exchange: str, queue: str
) -> dict[str, Any]:
    """Return a message as kombu stores it on Redis as a dead letter, with more headers.

    Arguments:
        exchange: of the dead letters.
        queue: where it was.
    """
    properties = {
        **raw["properties"],
        "delivery_info": {"exchange": exchange, "routing_key": queue},
        "delivery_tag": str(uuid4()),
    }
    properties.pop("ahead", None)
    changed = with_headers(raw.get("headers"), headers)
    return {**raw, "headers": changed, "properties": properties}


def raw_payload(channel: Any, raw: bytes, headers: Mapping[str, Any], exchange: str) -> Any:
    """Return what is no message at all as the body of a dead letter, as kombu stores one on Redis.

    Arguments:
        exchange: of the dead letters.
    """
    body, encoding = channel.encode_body(raw, channel.body_encoding)
    return channel.prepare_message(
        body,
        content_type="application/octet-stream",
        content_encoding="binary",
        headers=dict(headers),
        properties={
            "body_encoding": encoding,
            "delivery_info": {"exchange": exchange, "routing_key": ""},
            "delivery_tag": str(uuid4()),
        },
    )


def _is_still_here(message: Any) -> bool:
    """Whether the broker has not closed a message's channel; without a feed of ours, who knows."""
    feed = getattr(message, "feed", None)
    return feed is None or feed.asks_if_open()


def _bytes_of(message: Any) -> bytes:
    """Return a message's body as it came, or nearly so: as text, it need not be what is encoded."""
    body = message.body or b""
    if isinstance(body, bytes):
        return body
    with suppress(Exception):
        return bytes(body.encode(message.content_encoding or "utf-8"))
    return bytes(body.encode("utf-8", "surrogatepass"))


def queue_of(message: Any) -> str:
    """Return the name of a message's queue; without a feed of ours, its routing key."""
    feed = getattr(message, "feed", None)
    return str(feed.name if feed is not None else message.delivery_info.get("routing_key") or "")
