"""Dead letters on kombu's emulated brokers.

On Redis letters are read where they are, and moved or removed in one step each. On the others, such
as the one in memory, each letter is got and put back. The letters go round once: each is put back
behind the others as soon as nothing is to be done with it, so that a killed program has no more of
them than one, and those that it was told to keep. Of these, one with which nothing could be done
after all comes to stand behind the others.
"""

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from queue import Empty
from typing import Any, NamedTuple
from uuid import uuid4

from celery_fair.brokers.payload import fresh_payload, letter_of, targets, undelivered
from celery_fair.brokers.redis import Commands, script_text
from celery_fair.dead_letters.letter import Letter
from celery_fair.dead_letters.letter_queue import (
    GoneError,
    Keep,
    LetterQueue,
    Letters,
    ReplayError,
    nothing,
)

_PAGE = 500
"""Letters read at a time."""

_GONE = "somebody else has replayed or removed it meanwhile"


class _Place(NamedTuple):
    key: str
    raw: bytes
    payload: Any


class RedisLetters(LetterQueue):
    """The dead-letter queue on Redis: a list for each priority, the oldest letter at its end."""

    def __init__(self, connection: Any, *rest: Any) -> None:
        super().__init__(connection, *rest)
        self._channel = connection.default_channel
        self._send = Commands(self._channel)
        self._passed: dict[str, int] = {}
        """How many letters `browse` has left behind itself in each list."""

    def count(self) -> int:
        return sum(int(self._send("LLEN", key)) for key in self._send.lists(self._name))

    def browse(self, keep: Keep = nothing) -> Letters:
        for key in self._send.lists(self._name):
            left = int(self._send("LLEN", key))
            self._passed[key] = 0
            while left > 0:
                last = -1 - self._passed[key]
                page = self._send("LRANGE", key, last - min(_PAGE, left) + 1, last)
                if not page:
                    break
                left -= len(page)
                self._passed[key] += len(page)
                for raw in reversed(page):
                    yield _letter(key, raw)

    def hold(self, letter: Letter) -> Letter:
        key, raw, payload = letter.handle
        payload["properties"]["delivery_tag"] = str(uuid4())
        held = json.dumps(payload).encode()
        script = script_text("celery_fair.brokers", "rewrite.lua")
        if not self._send("EVAL", script, 1, key, raw, held):
            raise GoneError(_GONE)
        return replace(letter, handle=_Place(key, held, payload))

    def replay(self, letter: Letter) -> None:
        channel = self._channel
        exchange, _ = letter.origin
        queues = targets(channel, letter, self._exchanges)
        if exchange and channel.typeof(exchange).type == "fanout":
            raise ReplayError(
                f"exchange {exchange!r} is a fanout, which Redis keeps no messages of; publish the"
                " task anew"
            )
        place = letter.handle
        fresh = fresh_payload(place.payload, letter)
        lists = [self._send.list_of(queue, fresh) for queue in queues]
        copies = []
        for _ in lists:
            fresh["properties"]["delivery_tag"] = str(uuid4())
            copies.append(json.dumps(fresh))
        keys = [place.key, *lists]
        self._taken(letter, "EVAL", self._script, len(keys), *keys, place.raw, *copies)

    def remove(self, letter: Letter) -> None:
        self._taken(letter, "LREM", letter.handle.key, -1, letter.handle.raw)

    def is_lost(self, error: Exception) -> bool:
        from redis.exceptions import ConnectionError as Lost
        from redis.exceptions import TimeoutError as Late

        return isinstance(error, OSError | Lost | Late)

    def _taken(self, letter: Letter, *command: Any) -> None:
        if not self._send(*command):
            raise GoneError(_GONE)
        self._passed[letter.handle.key] -= 1

    @cached_property
    def _script(self) -> str:
        return script_text("celery_fair.brokers", "replay.lua")


def _letter(key: str, raw: bytes) -> Letter:
    try:
        payload = json.loads(raw)
    except (ValueError, RecursionError):
        return Letter({}, {}, raw, _Place(key, raw, None), "it is no JSON")
    return letter_of(payload, _Place(key, raw, payload))


@dataclass(eq=False)
class _Got:
    payload: Any
    message: Any = None
    settled: bool = False


class VirtualLetters(LetterQueue):
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

    def replay(self, letter: Letter) -> None:
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
