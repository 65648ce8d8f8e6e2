"""What commands ask of a queue that is shared by key: who waits, and what keys may."""

import math
from collections.abc import Callable, Mapping
from time import time
from typing import Any, NamedTuple

from celery_fair.brokers.keyed.scripts import KeyedScripts, Left, number, script, written
from celery_fair.brokers.payload import published
from celery_fair.settings import KeyLimits

_MERGED = 200
"""Messages that are put back with one question, at the most."""

_MOVED = 100
"""Messages that are moved to the dead letters with one question, at the most."""

_LOOKED_AT = 1000
"""Tenants that are looked at for `KeyedLists.look`."""

_PARTS_LOOKED_AT = 50
"""Parts of a tenant whose oldest messages are looked at."""


class Backlog(NamedTuple):
    """What is known of a tenant that has messages waiting."""

    tenant: str
    weight: float
    waiting: int
    parts: int
    ahead: float
    """How far its tag is ahead: the cost that keys of weight 1 are served each before it."""
    started: int
    """Messages in this minute and the one before."""
    running: int
    """Messages that have a place; counted of tenants that have a cap."""
    limits: KeyLimits
    held: float | None
    """Seconds for which it may start nothing, at the most; infinite if it is paused."""
    before: int | None
    """Tenants that come before it; None if it has nothing waiting, or is held."""

    def as_dict(self) -> dict[str, Any]:
        """Return all of it, the limits one by one."""
        row = {**self._asdict(), **self.limits._asdict(), "reason": self.reason}
        del row["limits"]
        return row

    @property
    def is_paused(self) -> bool:
        """Whether it is paused, also if no worker has come upon that yet."""
        return self.held == math.inf

    @property
    def reason(self) -> str:
        """Why it is held; nothing if it is not."""
        if self.held is None:
            return ""
        if self.is_paused:
            return "paused"
        cap = self.limits.max_in_flight
        is_full = cap is not None and self.running >= cap
        return "cap" if is_full or self.limits.rate is None else "leash"


class KeyedLists(KeyedScripts):
    """The keys' lists of a queue, and their tags, as people use them."""

    def look(self, *tenants: str) -> tuple[int, int, list[Backlog]]:
        """Return how many tenants have messages, how many are unsorted, and who comes next.

        Arguments:
            tenants: these instead, whether they have something waiting or not.
        """
        permitted = written(self._keyed.limits)
        args = [time(), _LOOKED_AT, self._keyed.weight, permitted, *self._steps, *tenants]
        count, *rows = script(self._send, "limits.lua", "look.lua")([self._base], args)
        found = [_backlog(*row) for row in rows]
        return count, sum(self._send("LLEN", key) for key in self._keys[3:]), found

    def set(self, tenant: str, options: Mapping[str, float | None]) -> None:
        """Let a tenant have these options from its next message on, and the others as it has them.

        Arguments:
            options: of `celery_fair.settings.keys.KeyOptions`; of a limit None is for any number.
        """
        options = dict(options)
        if "weight" in options:
            self._send("HSET", f"{self._base}:set", tenant, options.pop("weight"))
        if options:
            said = (self._send("HGET", f"{self._base}:limited", tenant) or b"? ? ?").decode()
            names = KeyLimits._fields
            texts = dict(zip(names, said.split(), strict=True))
            texts |= {name: number(value) for name, value in options.items()}
            text = " ".join(texts[name] for name in names)
            self._send("HSET", f"{self._base}:limited", tenant, text)
        self._let_try(tenant)

    def reset(self, tenant: str) -> None:
        """Let a tenant have what the settings say."""
        for hash_ in ("set", "limited"):
            self._send("HDEL", f"{self._base}:{hash_}", tenant)
        self._let_try(tenant)

    def pause(self, tenant: str, paused: bool) -> None:
        """Let a tenant start nothing, until this is ended."""
        if paused:
            self._send("HSET", f"{self._base}:paused", tenant, time())
        else:
            self._send("HDEL", f"{self._base}:paused", tenant)
            self._let_try(tenant)

    def _let_try(self, tenant: str) -> None:
        self.leave([Left(tenant, "", False)])

    def waiting(self) -> int:
        """Return how many messages wait in the keys' lists."""
        return int(self._send("HGET", self._base, "waiting") or 0)

    def parts(self, tenant: str) -> list[str]:
        """Return those of a tenant's parts that have messages."""
        only = self._send("HGET", f"{self._base}:only", tenant)
        parts = self._send("ZRANGE", f"{self._base}:parts:{tenant}", 0, -1)
        return [part.decode() for part in ([only] if only is not None else parts)]

    def waiting_of(self, tenant: str, part: str) -> int:
        """Return how many messages wait in a part's lists."""
        lanes = [f"{self._base}:lane:{tenant}/{part}{step}" for step in self._steps[1:]]
        return sum(int(self._send("LLEN", lane)) for lane in lanes)

    def oldest(self, tenant: str) -> float | None:
        """Return when the oldest of a tenant's messages was published, Unix time, if that is told.

        Of some of its parts, if they are very many.
        """
        lanes = [
            f"{self._base}:lane:{tenant}/{part}{step}"
            for part in self.parts(tenant)[:_PARTS_LOOKED_AT]
            for step in self._steps[1:]
        ]
        heads = self._send.all([("LINDEX", lane, -1) for lane in lanes]) if lanes else []
        return min(filter(None, map(published, heads)), default=None)

    def drop(self, tenant: str, part: str, to: str, told: Callable[[bytes], str]) -> int:
        """Move some messages of a part, those that came first, to another list; return how many.

        Arguments:
            to: that list's key.
            told: returns what a message is to be there; "" if it is to be deleted.
        """
        moved, drop = 0, script(self._send, "drop.lua")
        for step in self._steps[1:]:
            lane = f"{self._base}:lane:{tenant}/{part}{step}"
            some = self._send("LRANGE", lane, -_MOVED, -1)
            args = [field for raw in reversed(some) for field in (raw, told(raw))]
            moved += drop([self._base, lane, to], [tenant, part, *self._steps, *args])
        return moved

    def merge(self) -> int:
        """Put some of what was sorted back into the queue's own list; return how many."""
        return int(script(self._send, "merge.lua")(self._keys, [_MERGED, *self._steps]))


def _backlog(tenant: bytes, weight: bytes, waiting: int, parts: int, *rest: Any) -> Backlog:
    """As look.lua says it."""
    ahead, started, running, cap, rate, burst, held, before = rest
    limits = KeyLimits(int(cap) if cap else None, float(rate) if rate else None, int(burst))
    return Backlog(
        tenant.decode(errors="replace"),
        float(weight),
        waiting,
        parts,
        float(ahead),
        started,
        running,
        limits,
        float(held) if held else None,
        None if before == b"" else before,
    )
