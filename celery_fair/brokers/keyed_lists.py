"""A queue on Redis that is shared by key: lists for the keys, and scripts that keep their order.

``tags.lua``, which comes before each of the others, says what is kept under which name.
"""

from collections.abc import Callable
from importlib.resources import files
from random import random
from time import monotonic, time
from typing import Any, NamedTuple

from celery.exceptions import ImproperlyConfigured

from celery_fair.brokers.redis import Commands, Script
from celery_fair.settings import KeyedQueue

__all__ = ["Backlog", "KeyedLists", "Turn", "base_of"]

_SORTED = 200
"""Messages that are sorted with one question, at the most: about 5 ms of the server's time."""

_SORTED_BYTES = 262_144
"""Bytes of them, so that long ones take no longer."""

_LOOKED_AT = 1000
"""Tenants that are looked at for `KeyedLists.look`."""

_SCANNED = 1000
"""Keys of the server that are looked at with one question."""


class Turn(NamedTuple):
    """By which turn of whose a message came."""

    tenant: str
    part: str
    finish: str
    part_finish: str
    charged: float


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
        self._pop = Script(send, _lua("tags.lua", "pop.lua"))
        self._adopt = Script(send, _lua("tags.lua", "adopt.lua"))
        self._merge = Script(send, _lua("tags.lua", "merge.lua"))
        self._look = Script(send, _lua("tags.lua", "look.lua"))

    def weigh(self) -> None:
        """Let keys weigh what the settings say, unless it was set otherwise live.

        Raises:
            celery.exceptions.ImproperlyConfigured: Redis lets this user have no such keys.
        """
        from redis.exceptions import NoPermissionError

        commands: list[tuple[Any, ...]] = [("DEL", f"{self._base}:weights")]
        for tenant, weight in self._keyed.weights.items():
            commands.append(("HSET", f"{self._base}:weights", tenant, weight))
        try:
            self._send.all([("MULTI",), *commands, ("EXEC",)])
        except NoPermissionError as exc:
            raise ImproperlyConfigured(
                f"fair_keys[{self._keyed.name!r}]: Redis lets this user have no keys that begin"
                f" with {self._base}; where users are limited to keys, allow ~celery-fair:*, and"
                f" the commands EVAL, EVALSHA, SCRIPT and SCAN ({exc})"
            ) from exc

    def pop(
        self, wanted: int, charge: float, prefix: str, settled: list[tuple[Turn, float]]
    ) -> tuple[int, int, list[list[bytes]]]:
        """Sort some messages, and take some.

        Arguments:
            wanted: how many at the most.
            charge: what each is reckoned to take.
            prefix: what the delivery tags begin with.
            settled: what messages took more than they were charged, by their turns.

        Returns:
            How many are left in the keys' lists, how many are unsorted, and each that was taken:
            the message, its turn's fields, and one more if it is not recorded as unacknowledged.
        """
        args: list[Any] = [time(), prefix, wanted, charge, self._keyed.weight, self._draw()]
        args += [_SORTED, _SORTED_BYTES, *self._steps]
        for turn, difference in settled:
            args += [turn.tenant, turn.part, turn.finish, turn.part_finish, difference]
        waiting, unsorted, *taken = self._pop(self._keys, args)
        return int(waiting), int(unsorted), taken

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

    def look(self) -> tuple[int, int, list[Backlog]]:
        """Return how many tenants have messages, how many are unsorted, and who comes next."""
        args = [time(), _LOOKED_AT, self._keyed.weight, *self._steps]
        tenants, *rows = self._look([self._base], args)
        found = []
        for tenant, weight, waiting, parts, ahead, started in rows:
            row = (tenant.decode(), float(weight), waiting, parts, float(ahead), started)
            found.append(Backlog(*row))
        return tenants, sum(self._send("LLEN", key) for key in self._keys[3:]), found

    def set_weight(self, tenant: str, weight: float | None) -> None:
        """Let a tenant weigh this from its next message on; None: what the settings say."""
        if weight is None:
            self._send("HDEL", f"{self._base}:set", tenant)
        else:
            self._send("HSET", f"{self._base}:set", tenant, weight)

    def waiting(self) -> int:
        """Return how many messages wait in the keys' lists."""
        return int(self._send("HGET", self._base, "waiting") or 0)

    def merge(self) -> int:
        """Put some of what was sorted back into the queue's own list; return how many are left."""
        return int(self._merge(self._keys, [_SORTED, *self._steps]))


def base_of(queue: str) -> str:
    """Return what the names of a queue's keys begin with in Redis."""
    return f"celery-fair:keys:{queue}"


def _lua(*names: str) -> str:
    folder = files("celery_fair.brokers")
    return "\n".join(folder.joinpath(name).read_text() for name in names)
