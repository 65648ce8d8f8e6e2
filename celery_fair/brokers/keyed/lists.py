"""What workers, and commands, ask of a queue that is shared by key, and tell it."""

import math
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from random import random
from time import monotonic, time
from typing import Any, NamedTuple

from celery.exceptions import ImproperlyConfigured

from celery_fair.brokers.payload import published
from celery_fair.brokers.redis import Commands, Script
from celery_fair.core.gate import SLACK
from celery_fair.core.tags import Turn
from celery_fair.settings import KeyedQueue, KeyLimits

__all__ = ["Backlog", "KeyedLists", "Left", "base_of"]

_SORTED = 200
"""Messages that are sorted with one question, at the most: about 5 ms of the server's time."""

_SORTED_BYTES = 262_144
"""Bytes of them, so that long ones take no longer."""

_MOVED = 100
"""Messages that are moved to the dead letters with one question, at the most."""

_LOOKED_AT = 1000
"""Tenants that are looked at for `KeyedLists.look`."""

_PARTS_LOOKED_AT = 50
"""Parts of a tenant whose oldest messages are looked at."""

_LEFT = 600
"""Seconds after which a spare lane is nobody's that nobody has asked for, and that is empty."""

_SCANNED = 1000
"""Keys of the server that are looked at with one question."""


class Left(NamedTuple):
    """A message that has its place no longer."""

    tenant: str
    place: str
    unused: bool
    """It did not start: if it had a token, that is to be used again."""


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


class KeyedLists:
    """The keys' lists of a queue, and their tags.

    Arguments:
        channel: of kombu's Redis transport.
        send: sends commands to the server.
        keyed: the queue's entry in ``fair_keys``.
        draw: returns a random number from 0 to 1, below it.
    """

    def __init__(
        self,
        channel: Any,
        send: Commands,
        keyed: KeyedQueue,
        draw: Callable[[], float] = random,
    ) -> None:
        self._send = send
        self._keyed = keyed
        self._draw = draw
        self._base = send.key(base_of(keyed.name))
        steps = [channel._q_for_pri("", step) for step in channel.priority_steps]
        self._steps = [len(steps), *steps]
        self._keys = [self._base, *send.unacked, *send.lists(keyed.name)]
        self._pop = _script(send, "limits.lua", "pop.lua")
        self._leave = _script(send, "limits.lua", "leave.lua")
        self._renew = _script(send, "limits.lua", "renew.lua")
        self._look = _script(send, "limits.lua", "look.lua")
        self._may = _script(send, "limits.lua", "may.lua")
        self._spare = _script(send, "limits.lua", "spare.lua")
        self._put = _script(send, "put.lua")
        self._adopt = _script(send, "adopt.lua")
        self._merge = _script(send, "merge.lua")
        self._drop = _script(send, "drop.lua")

    def weigh(self) -> None:
        """Let keys weigh, and be limited to, what the settings say, unless set otherwise live.

        Raises:
            celery.exceptions.ImproperlyConfigured: Redis lets this user have no such keys.
        """
        from redis.exceptions import NoPermissionError

        weights, limits = f"{self._base}:weights", f"{self._base}:limits"
        commands: list[tuple[Any, ...]] = [("DEL", weights, limits)]
        for tenant, weight in self._keyed.weights.items():
            commands.append(("HSET", weights, tenant, weight))
        for tenant, own in self._keyed.own_limits.items():
            commands.append(("HSET", limits, tenant, _written(own)))
        try:
            self._send.all([("MULTI",), *commands, ("EXEC",)])
        except NoPermissionError as exc:
            raise ImproperlyConfigured(
                f"fair_keys[{self._keyed.name!r}]: Redis lets this user have no keys that begin"
                f" with {self._base}; where users are limited to keys, allow ~celery-fair:*, and"
                f" the commands EVAL, EVALSHA, SCRIPT and SCAN ({exc})"
            ) from exc

    def put(self, tenant: str, part: str, step: str, message: str) -> None:
        """Put a message into its key's list.

        Arguments:
            step: what the names of lists of its priority end in.

        Raises:
            redis.ResponseError: this user may not; nothing has happened.
        """
        self._put([self._base], [tenant, part, step, message])

    def pop(
        self,
        wanted: int,
        charge: float,
        prefix: str,
        settled: Sequence[tuple[Turn, float]] = (),
        left: Sequence[Left] = (),
    ) -> tuple[int, int, list[list[bytes]]]:
        """Sort some messages, and take some.

        Arguments:
            wanted: how many at the most.
            charge: what each is reckoned to take.
            prefix: what the delivery tags begin with.
            settled: what messages took more than they were charged, by their turns.
            left: messages that have their places no longer.

        Returns:
            How many are left in the keys' lists, how many are unsorted, and each that was taken:
            the message, its turn's fields, and one more if it is not recorded as unacknowledged.
        """
        args: list[Any] = [time(), prefix, wanted, charge, self._keyed.weight, self._draw()]
        args += [_SORTED, _SORTED_BYTES, _written(self._keyed.limits), SLACK, self._keyed.lease]
        args += [*self._steps, len(left), *_told(left)]
        for turn, difference in settled:
            args += [turn.tenant, turn.part, turn.finish, turn.part_finish, difference]
        waiting, unsorted, *taken = self._pop(self._keys, args)
        return int(waiting), int(unsorted), taken

    def may(self, tenant: str, place: str) -> str | float:
        """Ask whether a tenant may start a message that is not in these lists.

        Arguments:
            place: what its place is called, if it gets one.

        Returns:
            What it has for that, as in `Turn.has`; or else the seconds until it may, at the most.
        """
        limits = _written(self._keyed.own_limits.get(tenant, self._keyed.limits))
        has, *wait = self._may([self._base], [tenant, limits, SLACK, self._keyed.lease, place])
        return float(wait[0]) if has is None else has.decode()

    def spare(self, tenant: str, offered: int | None, given_up: int | None) -> int | None:
        """Return which lane is a tenant's for what is to wait; None if it has none.

        Arguments:
            offered: an empty one, which is its own from then on if it has none, and nobody else's.
            given_up: one that is nobody's any more.
        """
        lanes = ["" if number is None else number for number in (offered, given_up)]
        found = self._spare([self._base], [tenant, *lanes, _LEFT])
        return None if found is None else int(found)

    def live(self) -> tuple[dict[str, float], set[str]]:
        """Return what tenants weigh that it was set live for, and who is limited, or paused, so."""
        names = ("set", "limited", "paused")
        kinds = ("HGETALL", "HKEYS", "HKEYS")
        commands = [(kind, f"{self._base}:{name}") for kind, name in zip(kinds, names, strict=True)]
        pairs, limited, paused = self._send.all(commands)
        if not isinstance(pairs, dict):  # as by RESP2
            pairs = dict(zip(pairs[::2], pairs[1::2], strict=True))
        return (
            {tenant.decode(): float(weight) for tenant, weight in pairs.items()},
            {tenant.decode() for tenant in (*limited, *paused)},
        )

    def leave(self, left: Sequence[Left]) -> None:
        """These messages have their places no longer."""
        self._leave([self._base], _told(left))

    def renew(self, places: Sequence[tuple[str, str]]) -> list[int]:
        """Renew the leases of places, by tenant and delivery tag; return which are lost."""
        pairs = [text for place in places for text in place]
        lost = self._renew([self._base], [self._keyed.lease, *pairs])
        return [(int(number) - 2) // 2 for number in lost]

    def sort(self, until: float) -> None:
        """Sort what has been published, in slices, until a time on the monotonic clock."""
        unsorted = 1
        while unsorted and monotonic() < until:
            _, unsorted, _ = self.pop(0, 0.0, "", [])

    def adopt(self, cursor: int) -> int | None:
        """Look for lists that no tag is kept of, as after a fail-over; some with each call.

        Arguments:
            cursor: 0, then what the last call returned, until that is None.
        """
        lane = f"{self._base}:lane:"
        pattern = "".join(f"\\{sign}" if sign in r"*?[]^\-" else sign for sign in lane)
        found, keys = self._send("SCAN", cursor, "MATCH", f"{pattern}*", "COUNT", _SCANNED)
        if keys:
            self._adopt([self._base], [len(lane.encode()), *self._steps, *keys])
        return int(found) or None

    def look(self, *tenants: str) -> tuple[int, int, list[Backlog]]:
        """Return how many tenants have messages, how many are unsorted, and who comes next.

        Arguments:
            tenants: these instead, whether they have something waiting or not.
        """
        permitted = _written(self._keyed.limits)
        args = [time(), _LOOKED_AT, self._keyed.weight, permitted, *self._steps, *tenants]
        count, *rows = self._look([self._base], args)
        found = [_backlog(*row) for row in rows]
        return count, sum(self._send("LLEN", key) for key in self._keys[3:]), found

    def set(self, tenant: str, options: Mapping[str, float | None]) -> None:
        """Let a tenant have these options from its next message on, and the others as it has them.

        Arguments:
            options: of `celery_fair.settings.KeyOptions`; of a limit None is for any number.
        """
        options = dict(options)
        if "weight" in options:
            self._send("HSET", f"{self._base}:set", tenant, options.pop("weight"))
        if options:
            said = (self._send("HGET", f"{self._base}:limited", tenant) or b"? ? ?").decode()
            names = KeyLimits._fields
            texts = dict(zip(names, said.split(), strict=True))
            texts |= {name: _number(value) for name, value in options.items()}
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
            told: returns what a message is to be there.
        """
        moved = 0
        for step in self._steps[1:]:
            lane = f"{self._base}:lane:{tenant}/{part}{step}"
            some = self._send("LRANGE", lane, -_MOVED, -1)
            args = [field for raw in reversed(some) for field in (raw, told(raw))]
            moved += self._drop([self._base, lane, to], [tenant, part, *self._steps, *args])
        return moved

    def merge(self) -> int:
        """Put some of what was sorted back into the queue's own list; return how many."""
        return int(self._merge(self._keys, [_SORTED, *self._steps]))


def base_of(queue: str) -> str:
    """Return what the names of a queue's keys begin with in Redis."""
    return f"celery-fair:keys:{queue}"


def _script(send: Commands, *names: str) -> Script:
    folder = files("celery_fair.brokers.keyed")
    texts = [folder.joinpath(name).read_text() for name in ("tags.lua", *names)]
    return Script(send, "\n".join(texts))


def _told(left: Sequence[Left]) -> list[Any]:
    return [field for each in left for field in (each.tenant, each.place, int(each.unused))]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.17g}"


def _written(limits: KeyLimits) -> str:
    """As limits.lua reads them."""
    return " ".join(map(_number, limits))


def _backlog(tenant: bytes, weight: bytes, waiting: int, parts: int, *rest: Any) -> Backlog:
    """As look.lua says it."""
    ahead, started, running, cap, rate, burst, held, before = rest
    limits = KeyLimits(int(cap) if cap else None, float(rate) if rate else None, float(burst))
    return Backlog(
        tenant.decode(),
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
