"""Redis: letters are read where they are, and moved or removed in one step each."""

import json
from functools import cached_property
from importlib.resources import files
from typing import Any, NamedTuple
from uuid import uuid4

from celery_fair.brokers.payload import fresh_payload, letter_of, targets
from celery_fair.brokers.redis import Commands
from celery_fair.dead_letters.letter import Letter
from celery_fair.dead_letters.letter_queue import (
    GoneError,
    Keep,
    Letters,
    OneByOne,
    ReplayError,
    nothing,
)

__all__ = ["RedisLetters"]

_PAGE = 500
"""Letters read at a time."""


class _Place(NamedTuple):
    key: str
    raw: bytes
    payload: Any


class RedisLetters(OneByOne):
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

    def _replay(self, letter: Letter) -> None:
        place = letter.handle
        channel = self._channel
        exchange, _ = letter.origin
        queues = targets(channel, letter, self._exchanges)
        if exchange and channel.typeof(exchange).type == "fanout":
            raise ReplayError(
                f"exchange {exchange!r} is a fanout, which Redis keeps no messages of; publish the"
                " task anew"
            )
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
            raise GoneError("somebody else has replayed or removed it meanwhile")
        self._passed[letter.handle.key] -= 1

    @cached_property
    def _script(self) -> str:
        return files("celery_fair.brokers").joinpath("replay.lua").read_text()


def _letter(key: str, raw: bytes) -> Letter:
    try:
        payload = json.loads(raw)
    except (ValueError, RecursionError):
        return Letter({}, {}, raw, _Place(key, raw, None), "it is no JSON")
    return letter_of(payload, _Place(key, raw, payload))
