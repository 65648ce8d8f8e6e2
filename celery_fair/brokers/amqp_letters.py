"""RabbitMQ: letters are got and not acknowledged, so that the broker puts them back in place.

One channel holds what was got, another publishes: an error on the latter closes that one only.

A round trip for each letter would take minutes for ten thousand of them. So letters are got, and
published, some at a time: all are sent, then the broker's answers are waited for, and a letter is
acknowledged when its own copy is confirmed.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, NamedTuple

from amqp import Channel, spec
from amqp.exceptions import MessageNacked, NotFound

from celery_fair.dead_letters.letter import Letter
from celery_fair.dead_letters.letter_queue import (
    GoneError,
    Keep,
    LetterQueue,
    Letters,
    ReplayError,
    Result,
    nothing,
)
from celery_fair.headers import PUBLISHED

_CONFIRM_TIMEOUT = 10.0
"""Seconds for the broker to confirm a message: one under a memory alarm never does."""

_RETURN_TIMEOUT = 2.0
"""Seconds to wait for what was got to be back: longer only if somebody else takes it meanwhile."""

_HEADERS = "application_headers"

_AT_ONCE = 100
"""Letters that are published, and not confirmed, at a time."""

_GOT = 50
"""Letters that are got in one go."""


class AmqpLetters(LetterQueue):
    """The dead-letter queue on RabbitMQ."""

    at_once = _AT_ONCE
    _held: Any = None
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
        channel = self._held = self._connection.channel()
        channel.auto_decode = False  # of the body, by whatever codec a message names
        self._removed = 0
        try:
            for first in range(0, there, _GOT):
                wanted = min(_GOT, there - first)
                some = list(_got(channel, self._name, wanted))
                for message in some:
                    yield _letter(message)
                if len(some) < wanted:
                    break
        finally:
            self._held = None
            _close(channel)
            self._await(there - self._removed)

    def replay(self, letters: Sequence[Letter]) -> list[Result]:
        results: dict[int, Result] = {}
        by_exchange: dict[str, list[int]] = {}
        for number, letter in enumerate(letters):
            by_exchange.setdefault(letter.origin[0], []).append(number)
        for numbers in by_exchange.values():  # what the broker says of one is not of the others
            copies = _Copies(self._connection.channel())
            answers = copies.published([letters[number] for number in numbers])
            results |= zip(numbers, answers, strict=True)
        return [self._replayed(letter, results[n]) for n, letter in enumerate(letters)]

    def _replayed(self, letter: Letter, result: Result) -> Result:
        if result is not None:
            return result
        try:
            self.remove(letter)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the copy is published
            return _for(exc, f"it was replayed, and is still a dead letter: {exc}; purge it")
        return None

    def remove(self, letter: Letter) -> None:
        if letter.handle.channel is not self._held or not self._held.is_open:
            raise GoneError("the broker has closed the channel that held it")
        self._held.basic_ack(letter.handle.tag)
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


class _Got(NamedTuple):
    """A letter's message, where it was got, and by which tag."""

    channel: Any
    tag: int
    message: Any


class _Copies:
    """Copies of letters, from their publication to the broker's answers.

    Arguments:
        channel: a new one, which this closes.
    """

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._results: list[Result] = []
        self._waiting: dict[int, int] = {}  # places in the results, by the confirmations' numbers
        self._sent: dict[tuple[Any, bytes], int] = {}

    def published(self, letters: Sequence[Letter]) -> list[Result]:
        """Publish copies of letters to one exchange; return what came of them, in their order."""
        channel = self._channel
        channel.auto_decode = False
        channel.events["basic_return"].add(self._is_returned)
        channel.events["basic_ack"].add(self._is_confirmed)
        channel.events["basic_nack"].add(self._is_refused)
        self._results = [None] * len(letters)
        try:
            channel.confirm_select()
            for number, letter in enumerate(letters):
                self._waiting[number + 1] = number
                self._publish(number, letter)
            self._wait()
        except Exception as exc:  # noqa: BLE001 - each letter says so, and the next find out more
            self._fail(exc)
            return self._results  # a broker under an alarm would not answer that it is closed
        _close(channel)
        return self._results

    def _publish(self, number: int, letter: Letter) -> None:
        exchange, key = letter.origin
        message = letter.handle.message
        headers = letter.replayed_headers()
        while (mark := (headers[PUBLISHED], letter.body)) in self._sent:
            headers[PUBLISHED] += 1e-6
        self._sent[mark] = number
        copy = type(message)(letter.body, **(message.properties | {_HEADERS: headers}))
        Channel.basic_publish(
            self._channel, copy, exchange=exchange, routing_key=key, mandatory=True
        )

    def _wait(self) -> None:
        until = monotonic() + _CONFIRM_TIMEOUT
        connection = self._channel.connection
        while self._waiting:
            connection.drain_events(timeout=max(0.001, until - monotonic()))

    def _fail(self, exc: Exception) -> None:
        """Of those that are not confirmed it is not known what has become."""
        late = isinstance(exc, TimeoutError)
        for number in self._waiting.values():
            if late:
                self._results[number] = TimeoutError(
                    f"the broker has not confirmed it within {_CONFIRM_TIMEOUT:g} s: it is still a"
                    " dead letter, and may have been replayed nevertheless; look at its queue"
                )
            else:
                self._results[number] = exc

    def _is_returned(self, error: Exception, exchange: str, key: str, message: Any) -> None:
        headers = message.properties.get(_HEADERS) or {}
        number = self._sent.get((headers.get(PUBLISHED), bytes(message.body)))
        if number is not None:
            self._results[number] = _unroutable(exchange, key, error)

    def _is_confirmed(self, tag: int, multiple: bool) -> None:
        for each in self._answered(tag, multiple):
            del self._waiting[each]

    def _is_refused(self, tag: int, multiple: bool) -> None:
        for each in self._answered(tag, multiple):
            self._results[self._waiting.pop(each)] = MessageNacked()

    def _answered(self, tag: int, multiple: bool) -> list[int]:
        if multiple:
            return [each for each in self._waiting if not tag or each <= tag]
        return [tag] if tag in self._waiting else []


def _unroutable(exchange: str, key: str, error: Exception) -> ReplayError:
    if exchange:
        text = f"no queue is bound to exchange {exchange!r} for routing key {key!r}; declare one"
    else:
        text = f"there is no queue {key!r}; declare it"
    return _for(error, text)


def _for(cause: Exception, text: str) -> ReplayError:
    error = ReplayError(text)
    error.__cause__ = cause
    return error


def _got(channel: Any, queue: str, most: int) -> Iterator[_Got]:
    """Yield a queue's next messages, so many at the most, when all of them have come."""
    for _ in range(most):
        channel.send_method(spec.Basic.Get, "Bsb", (0, queue, False))
    kinds = [spec.Basic.GetOk, spec.Basic.GetEmpty]
    answers = [channel.wait(kinds, returns_tuple=True) for _ in range(most)]
    for answer in answers:
        if len(answer) > 1:
            yield _Got(channel, answer[0], answer[-1])


def _letter(got: _Got) -> Letter:
    message = got.message
    headers = message.properties.get(_HEADERS)
    body = message.body
    return Letter(
        headers=headers if isinstance(headers, dict) else {},
        properties={n: v for n, v in message.properties.items() if n != _HEADERS},
        body=body.encode() if isinstance(body, str) else bytes(body),
        handle=got,
    )


def _close(channel: Any) -> None:
    with suppress(Exception):  # closed by the broker, or with the connection: all is put back
        channel.close()
