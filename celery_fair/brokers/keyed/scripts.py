"""What workers, and publishers, ask of a queue that is shared by key, and tell it."""

from collections.abc import Callable, Sequence
from random import random
from time import monotonic, time
from typing import Any, NamedTuple

from celery.exceptions import ImproperlyConfigured

from celery_fair.brokers.redis import Commands, Script, pairs_of, script_text
from celery_fair.core.gate import SLACK
from celery_fair.core.keys.tags import Turn
from celery_fair.settings import KeyedQueue, KeyLimits

_SORTED = 200
"""Messages that are sorted with one question, at the most: about 5 ms of the server's time."""

_SORTED_BYTES = 262_144
"""Bytes of them, so that long ones take no longer."""

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


class KeyedScripts:
    """The keys' lists of a queue, and their tags, as workers use them.

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
        self._pop = script(send, "limits.lua", "take.lua", "pop.lua")
        self._leave = script(send, "limits.lua", "leave.lua")
        self._renew = script(send, "limits.lua", "renew.lua")
        self._may = script(send, "limits.lua", "may.lua")
        self._spare = script(send, "limits.lua", "spare.lua")
        self._put = script(send, "put.lua")
        self._adopt = script(send, "adopt.lua")

    def weigh(self) -> None:
        """Let keys weigh, and be limited to, what the settings say, unless set otherwise live.

        Raises:
            celery.exceptions.ImproperlyConfigured: Redis lets this user have no such keys.
        """
        from redis.exceptions import NoPermissionError

        weights, limits, held = (f"{self._base}:{name}" for name in ("weights", "limits", "held"))
        # Whoever is held by limits that were stricter is not for as long as these said.
        commands: list[tuple[Any, ...]] = [("ZUNIONSTORE", held, 1, held, "WEIGHTS", 0)]
        commands.append(("DEL", weights, limits))
        for tenant, weight in self._keyed.weights.items():
            commands.append(("HSET", weights, tenant, weight))
        for tenant, own in self._keyed.own_limits.items():
            commands.append(("HSET", limits, tenant, written(own)))
        try:
            self._send.at_once(commands)
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
        args += [_SORTED, _SORTED_BYTES, written(self._keyed.limits), SLACK, self._keyed.lease]
        args += [self._keyed.name, *self._steps, len(left), *_told(left)]
        for turn, difference in settled:
            args += [*turn[:4], difference, int(difference == -turn.charged)]
        waiting, unsorted, *taken = self._pop(self._keys, args)
        return int(waiting), int(unsorted), taken

    def may(self, tenant: str, place: str) -> str | float:
        """Ask whether a tenant may start a message that is not in these lists.

        Arguments:
            place: what its place is called, if it gets one.

        Returns:
            What it has for that, as in `Turn.has`; or else the seconds until it may, at the most.
        """
        limits = written(self._keyed.own_limits.get(tenant, self._keyed.limits))
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
        return (
            {tenant.decode(): float(weight) for tenant, weight in pairs_of(pairs)},
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


def base_of(queue: str) -> str:
    """Return what the names of a queue's keys begin with in Redis.

    What follows begins with a colon, so a queue's name must have none: ``orders:tags`` is a queue,
    and not what ``orders`` knows of its tags.
    """
    return "celery-fair:keys:" + queue.replace("%", "%25").replace(":", "%3A")


def script(send: Commands, *names: str) -> Script:
    return Script(send, script_text("celery_fair.brokers.keyed", "tags.lua", *names))


def _told(left: Sequence[Left]) -> list[Any]:
    return [field for each in left for field in (each.tenant, each.place, int(each.unused))]


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.17g}"


def written(limits: KeyLimits) -> str:
    """As limits.lua reads them."""
    return " ".join(map(number, limits))
