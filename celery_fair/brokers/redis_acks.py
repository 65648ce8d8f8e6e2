"""How a worker acknowledges what it holds of kombu's queues in Redis."""

import logging
from collections.abc import Callable
from typing import Any

from kombu.transport import virtual

from celery_fair.brokers.redis import Asking, Commands, answers_to

logger = logging.getLogger(__name__)


class NotHeldError(Exception):
    """The broker has given the message to another worker meanwhile."""


def acknowledge_held(send: Commands, message: Any) -> None:
    """Acknowledge a delivery of kombu's Redis transport, if it is still held here.

    Kombu does not look whether it was: a message that was held for longer than the visibility
    timeout has been restored, and may run elsewhere.

    Raises:
        NotHeldError: it is not; it is settled all the same.
        redis.RedisError: it may or may not be.
    """
    held, index = send.unacked
    tag = message.delivery_tag
    commands: list[tuple[Any, ...]] = [("ZREM", index, tag), ("HDEL", held, tag)]
    removed, _ = send.at_once(commands)
    book_settled(message)
    if not removed:
        raise NotHeldError("its visibility timeout is over; the broker has restored it")


class Acks:
    """Acknowledgements of one turn of the event loop, sent together, and not waited for.

    Kombu makes a round trip for each, in which nothing is started.

    Arguments:
        send: sends commands to the server.
        qos: kombu's account of what is unacknowledged.
        on_first: told when something waits; `flush` is to be called soon.
    """

    def __init__(self, send: Commands, qos: Any, on_first: Callable[[], object]) -> None:
        self._send = send
        self._qos = qos
        self._on_first = on_first
        self._waiting: list[str] = []
        self._sent: Any = (None for _ in "")  # what was sent last; nothing yet
        self._error: Exception | None = None
        self._keeps = True

    def ack(self, channel: Any, tag: str, multiple: bool = False) -> None:
        """As the channel's own ``basic_ack``."""
        if not self._keeps:
            answers_to(self._settling([tag]))
            return
        self._waiting.append(tag)
        if len(self._waiting) == 1:
            self._on_first()

    def flush(self) -> None:
        """Send what waits. Whatever fails, `answered` raises: here something is about to start."""
        if self._waiting:
            tags, self._waiting = self._waiting, []
            self._go_on()  # with the answer to what was sent before
            self._sent = self._settling(tags)
            self._go_on()

    def answered(self) -> None:
        """Take in the answer to what was sent last.

        Raises:
            OSError, redis.ConnectionError: what was sent last, or before, may have arrived, or not.
        """
        self._go_on()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def write_through(self) -> None:
        """Keep nothing from now on: nobody may come by to send it."""
        self._keeps = False
        self.flush()
        self.answered()

    def close(self) -> None:
        """Wait for no answer."""
        self._sent.close()

    def _go_on(self) -> None:
        try:
            next(self._sent, None)
        except Exception as exc:  # noqa: BLE001 - raised by `answered`
            self._error = exc

    def _settling(self, tags: list[str]) -> Asking:
        from redis.exceptions import ResponseError

        held, index = self._send.unacked
        try:
            yield from self._send.asking_at_once([("ZREM", index, *tags), ("HDEL", held, *tags)])
        except ResponseError:  # it is a replica by now, say
            logger.exception(
                "Redis refuses the acknowledgements of %d messages; they come again", len(tags)
            )
        else:
            for tag in tags:
                virtual.QoS.ack(self._qos, tag)
        return []


def book_settled(message: Any) -> None:
    """Note in kombu's books, and ours, that a command of our own has settled a delivery."""
    virtual.QoS.ack(message.channel.qos, message.delivery_tag)
    if (feed := getattr(message, "feed", None)) is None:
        message._state = "ACK"  # of a worker without the bootstep
    else:
        message.is_settled()
        feed.settled(message)
