"""Kombu's other emulated brokers, such as the one in memory: each letter is got and put back.

The letters go round once: each is put back behind the others as soon as nothing is to be done with
it, so that a killed program has no more of them than one, and those that it was told to keep. Of
these, one with which nothing could be done after all comes to stand behind the others.
"""

from contextlib import suppress
from dataclasses import dataclass
from queue import Empty
from typing import Any

from celery_fair.brokers.payload import fresh_payload, letter_of, targets, undelivered
from celery_fair.dead_letters.letter import Letter
from celery_fair.dead_letters.letter_queue import GoneError, Keep, Letters, OneByOne, nothing

__all__ = ["VirtualLetters"]


@dataclass(eq=False)
class _Got:
    payload: Any
    message: Any = None
    settled: bool = False


class VirtualLetters(OneByOne):
    """The dead-letter queue of an emulated broker."""

    def __init__(self, connection: Any, *rest: Any) -> None:
        super().__init__(connection, *rest)
        self._channel = connection.default_channel

    def count(self) -> int:
        return int(self._channel._size(self._name))

    def browse(self, keep: Keep = nothing) -> Letters:
        kept: list[_Got] = []
        left = self.count()
        try:
            while left and (got := self._get()):
                left -= 1
                kept.append(got)
                letter = letter_of(got.payload, got)
                yield letter
                if not keep(letter):
                    self._put_back(kept.pop())
        finally:
            for _ in range(left):
                if got := self._get():
                    self._put_back(got)
            for got in kept:
                self._put_back(got)

    def _replay(self, letter: Letter) -> None:
        got = _held(letter)
        fresh = fresh_payload(got.payload, letter)
        for queue in targets(self._channel, letter, self._exchanges):
            self._channel._put(queue, fresh)
        self._settle(got)

    def remove(self, letter: Letter) -> None:
        self._settle(_held(letter))

    def is_lost(self, error: Exception) -> bool:
        return isinstance(error, OSError)

    def _get(self) -> _Got | None:
        try:
            payload = self._channel._get(self._name)
        except Empty:
            return None
        got = _Got(payload)
        with suppress(Exception):  # as Channel.basic_get; not every payload is a message
            got.message = self._channel.Message(payload, channel=self._channel)
            self._channel.qos.append(got.message, got.message.delivery_tag)
        return got

    def _put_back(self, got: _Got) -> None:
        if not got.settled:
            self._channel._put(self._name, undelivered(got.payload))
            self._settle(got)

    def _settle(self, got: _Got) -> None:
        got.settled = True
        if got.message is not None:
            got.message.ack()


def _held(letter: Letter) -> _Got:
    got = letter.handle
    assert isinstance(got, _Got)
    if got.settled:
        raise GoneError("it was put back already")
    return got
