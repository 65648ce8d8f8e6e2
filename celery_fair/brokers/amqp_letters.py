"""RabbitMQ: letters are got and not acknowledged, so that the broker puts them back in place.

One channel holds what was got, another publishes: an error on the latter closes that one only. A
letter is acknowledged when its copy is confirmed.
"""

from contextlib import suppress
from time import monotonic, sleep
from typing import Any

from amqp import AMQPError, NotFound

from celery_fair.dead_letters.letter import Letter
from celery_fair.dead_letters.letter_queue import (
    GoneError,
    Keep,
    LetterQueue,
    Letters,
    ReplayError,
    nothing,
)

_CONFIRM_TIMEOUT = 10.0
"""Seconds for the broker to confirm a message: one under a memory alarm never does."""

_RETURN_TIMEOUT = 2.0
"""Seconds to wait for what was got to be back: longer only if somebody else takes it meanwhile."""

_HEADERS = "application_headers"

NO_ROUTE = 312
"""With this RabbitMQ returns a message that no queue would have got."""


class AmqpLetters(LetterQueue):
    """The dead-letter queue on RabbitMQ."""

    _held: Any = None
    _publisher: Any = None  # the channel that copies are published on
    _removed = 0

    def count(self) -> int:
        channel = self._connection.channel()
        try:
            return int(channel.queue_declare(self._name, passive=True).message_count)
        except NotFound:
            return 0
        finally:
            _close(channel)

    def browse(self, keep: Keep = nothing) -> Letters:
        there = self.count()
        if not there:
            return
        amqp = self._connection.connection
        # The body is not decoded, by whatever codec a message names.
        channel = self._held = amqp.Channel(amqp, auto_decode=False)
        channel.open()
        self._removed = 0
        try:
            for _ in range(there):
                message = channel.basic_get(self._name)
                if message is None:
                    break
                yield _letter(message)
        finally:
            self._held = None
            _close(channel)
            self._await(there - self._removed)

    def replay(self, letter: Letter) -> None:
        exchange, key = letter.origin
        message = letter.handle
        headers = letter.replayed_headers()
        copy = type(message)(letter.body, **(message.properties | {_HEADERS: headers}))
        channel, self._publisher = self._publisher or self._connection.channel(), None
        try:
            channel.basic_publish_confirm(
                copy, exchange, key, True, confirm_timeout=_CONFIRM_TIMEOUT
            )
        except TimeoutError as exc:  # nor would this broker answer that the channel is closed
            raise TimeoutError(
                f"the broker has not confirmed it within {_CONFIRM_TIMEOUT:g} s: it is still a dead"
                " letter, and may have been replayed nevertheless; look at its queue"
            ) from exc
        except Exception as exc:  # a late confirmation must not be taken for the next
            _close(channel)
            if isinstance(exc, AMQPError) and exc.reply_code == NO_ROUTE:
                raise ReplayError(_unroutable(exchange, key)) from exc
            raise
        self._publisher = channel
        try:
            self.remove(letter)
        except Exception as exc:
            raise ReplayError(
                f"it was replayed, and is still a dead letter: {exc}; purge it"
            ) from exc

    def remove(self, letter: Letter) -> None:
        if letter.handle.channel is not self._held or not self._held.is_open:
            raise GoneError("the broker has closed the channel that held it")
        self._held.basic_ack(letter.handle.delivery_tag)
        self._removed += 1

    def is_lost(self, error: Exception) -> bool:
        return isinstance(error, self._connection.connection_errors) or not (
            self._connection.connected
        )

    def _await(self, count: int) -> None:
        """Wait until so many letters are there: a channel is closed before they are put back.

        Who looks again at once, to replay what was just looked at, would find it gone.
        """
        deadline = monotonic() + _RETURN_TIMEOUT
        with suppress(Exception):  # no connection any more: the next look says so
            while self.count() < count and monotonic() < deadline:
                sleep(0.01)


def _unroutable(exchange: str, key: str) -> str:
    if exchange:
        return f"no queue is bound to exchange {exchange!r} for routing key {key!r}; declare one"
    return f"there is no queue {key!r}; declare it"


def _letter(message: Any) -> Letter:
    headers = message.properties.get(_HEADERS)
    body = message.body
    return Letter(
        headers=headers if isinstance(headers, dict) else {},
        properties={n: v for n, v in message.properties.items() if n != _HEADERS},
        body=body.encode() if isinstance(body, str) else bytes(body),
        handle=message,
    )


def _close(channel: Any) -> None:
    with suppress(Exception):  # closed by the broker, or with the connection: all is put back
        channel.close()
