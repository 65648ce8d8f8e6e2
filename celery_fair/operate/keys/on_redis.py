"""On Redis: the broker keeps the keys' lists and tags itself."""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from socket import gethostname
from time import monotonic
from typing import Any

from kombu.utils.json import dumps

from celery_fair.brokers.keyed.lists import Backlog, KeyedLists
from celery_fair.brokers.mover import dead_payload, raw_payload
from celery_fair.brokers.redis import Commands
from celery_fair.core.keys.fair_key import read_key
from celery_fair.dead_letters.death import dead_letter_queue, death_headers
from celery_fair.operate.errors import InvalidRequestError
from celery_fair.operate.keys.keys import Keys, Listing, Moved, Stop, Tick, rows_of
from celery_fair.settings import Settings

_SORTING = 30.0
"""Seconds to sort what was published, in which messages of the key may be, at the most."""


class RedisKeys(Keys):
    """Has the keys' lists."""

    place = "keys' lists"

    def __init__(self, app: Any, settings: Settings, connection: Any, queue: str) -> None:
        super().__init__(app, settings, connection, queue)
        self._channel = connection.default_channel
        self._send = Commands(self._channel)
        self._lists = KeyedLists(self._channel, self._send, settings.keys[queue])

    def listing(self, top: int) -> Listing:
        tenants, unsorted, found = self._lists.look()
        return Listing(tenants, unsorted, rows_of(found, top, self._lists.oldest))

    def backlog(self, tenant: str) -> tuple[Backlog, int]:
        _, unsorted, [found] = self._lists.look(tenant)
        return found, unsorted

    def _rules(self) -> AbstractContextManager[KeyedLists]:
        return nullcontext(self._lists)

    def waiting(self) -> Mapping[int, int]:
        return {0: self._lists.waiting()}

    def merge(self, waiting: Mapping[int, int], stop: Stop, tick: Tick) -> Moved:
        back = some = self._lists.merge()
        tick(some)
        before = sum(waiting.values())
        while some and back < before and not stop():  # who sorts meanwhile would keep it busy
            some = self._lists.merge()
            back += some
            tick(some)
        return Moved(back, self._lists.waiting(), stop())

    def waiting_of(self, key: str) -> dict[str, int]:
        tenant, part = read_key(key)
        self._lists.sort(until=monotonic() + _SORTING)
        self._adopt()
        parts = [each for each in self._lists.parts(tenant) if part in {"", each}]
        return {each: self._lists.waiting_of(tenant, each) for each in parts}

    def drop(
        self, key: str, waiting: Mapping[str, int], for_good: bool, stop: Stop, tick: Tick
    ) -> Moved:
        letters = self._settings.dead_letters
        if not for_good:
            dead_letter_queue(letters)(self._channel).declare()
        to, told = self._send.lists(letters)[0], (lambda _: "") if for_good else self._dead
        tenant, moved = read_key(key)[0], 0
        for part, count in waiting.items():  # more may be published meanwhile
            left = count
            while left > 0 and not stop():
                some = self._lists.drop(tenant, part, to=to, told=told)
                left = left - some if some else min(left, self._lists.waiting_of(tenant, part))
                moved += some
                tick(some)
        left = sum(self._lists.waiting_of(tenant, part) for part in waiting) if stop() else 0
        return Moved(moved, left, stop())

    def everything(self) -> int:
        return int(self._channel._size(self._queue)) + self._lists.waiting()

    def purge_everything(self) -> Moved:
        self.merge(self.waiting(), lambda: False, lambda _: None)
        count = self._channel.queue_purge(self._queue)
        return Moved(int(count or 0), self._lists.waiting(), False)

    def shrink(self, stop: Stop) -> Moved:
        raise InvalidRequestError("there are lanes on RabbitMQ alone; Redis removes lists itself")

    def _adopt(self) -> None:
        """Find lists that no tag is kept of, as after a fail-over."""
        cursor: int | None = 0
        while cursor is not None:
            cursor = self._lists.adopt(cursor)

    def _dead(self, raw: bytes) -> str:
        """Return a message as it is to stand among the dead letters."""
        letters, where = self._settings.dead_letters, (self._queue, gethostname())
        reason = ("dropped", "fair keys drop")
        try:
            payload = json.loads(raw)
            info = payload["properties"].get("delivery_info")
            again = bool((payload.get("headers") or {}).get("redelivered"))
            headers = death_headers(info, *where, *reason, again)
            return str(dumps(dead_payload(payload, headers, letters, self._queue)))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):  # no message
            headers = death_headers({}, *where, *reason, True)
            return str(dumps(raw_payload(self._channel, raw, headers, letters)))
