"""Moving a message on an AMQP broker: a copy is published and confirmed, and then it is settled."""

import logging
import struct
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, NamedTuple
from uuid import uuid4

from amqp import AccessRefused, AMQPError, NotFound, PreconditionFailed
from amqp.exceptions import MessageNacked

from celery_fair.brokers.amqp_letters import NO_ROUTE
from celery_fair.brokers.mover import Mover, NotTakenError, StaysError, history, queue_of
from celery_fair.dead_letters.death import dead_letter_queue, described_properties, properties_of

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

_PAUSE = 0.2
"""Seconds between two tries."""

_OF_A_FRAME = 20
"""Bytes of a frame of properties that are none."""

_STAYS = "fair-stays"  # in a message's delivery info: it is not moved any more

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
        if _STAYS in message.delivery_info:
            raise StaysError("a copy of it may be there already, or cannot be made")
        with self._alone():
            self._moved(message, _Copy(history(message), "", queue))

    def _move(self, message: Any, headers: Mapping[str, Any], exchange: str) -> bool:
        headers = headers if exchange else {**history(message), **headers}
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
            if ready and not (self._sent and _is_refusal(exc)):
                message.delivery_info[_STAYS] = True
            if self._sent and not _is_refusal(exc):
                message.delivery_info["redelivered"] = True  # a copy of it may be there
            if patient and (not ready or isinstance(exc, MessageNacked)):
                if not self._waited:
                    self._waited = True
                    logger.warning("%s: %r, %g s at the most", _WAITING, exc, _PATIENCE)
                return False
            if exchange and not isinstance(exc, _OF_THE_MESSAGE):  # or it alone would be tried
                self._letters_rest_until = monotonic() + _REST
            raise NotTakenError(repr(exc)) from exc
        return True

    def _be_ready(self) -> None:
        """Have a connection on which the broker takes messages now.

        Raises:
            Exception: whatever it does instead, which is not tried again for a while.
        """
        try:
            just_taken = monotonic() - self._taken_at < _JUST
            if self._channel is None or not (just_taken or self._is_open()):
                self._open()
                self._probe()
        except Exception:  # whatever it is, the next move need not find it out again; re-raised
            self._rests_until = monotonic() + _REST
            raise

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


def _is_refusal(exc: Exception) -> bool:
    """Whether a broker has said so that it does not have what was published."""
    returned = isinstance(exc, AMQPError) and exc.reply_code == NO_ROUTE
    return returned or isinstance(exc, AccessRefused | MessageNacked | NotFound)


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
