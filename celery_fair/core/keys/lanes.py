"""Which of a queue's lanes have messages, and whose they are, as far as a worker knows."""

from collections import Counter, defaultdict
from secrets import token_bytes
from zlib import crc32

Key = tuple[str, str]
"""A tenant, and a part of it."""

_NOBODY = 256 * "\0"
"""What a lane's name begins with where a key's would be, which is shorter."""

_SALT = token_bytes(8)
"""In each worker unknown lanes come in another order, or all would begin with the same tenants."""


def nobody_in(number: int) -> Key:
    """Return a key for a lane of which it is not known whose message is next."""
    place = crc32(_SALT + number.to_bytes(4))
    return f"{_NOBODY}{place:010}.{number}", ""


def is_nobodys(tenant: str) -> bool:
    """Whether it is one of those keys'."""
    return tenant.startswith(_NOBODY)


class KnownLanes:
    """Which lanes have messages, and whose they are, as far as a worker knows.

    Attributes:
        depths: messages in those that have any, by their numbers.
        coming: messages of each that were asked for, and have not come yet.
    """

    def __init__(self) -> None:
        self.depths: dict[int, int] = {}
        self.coming: Counter[int] = Counter()
        self._keys: dict[int, Key] = {}
        self._of: dict[Key, list[int]] = {}
        self._of_tenant: defaultdict[str, set[int]] = defaultdict(set)
        self._last: dict[int, str] = {}  # whose messages came from lanes, since they were empty
        self._shared: set[int] = set()

    def __contains__(self, key: Key) -> bool:
        """Whether a key has a lane."""
        return key in self._of

    def first_of(self, key: Key) -> int | None:
        """Return the number of the lane that a key's messages are taken from, and moved to."""
        lanes = self._of.get(key)
        return lanes[0] if lanes else None

    def lanes_of(self, tenant: str) -> set[int]:
        """Return the numbers of the lanes that are known to be a tenant's, or its parts'."""
        return set(self._of_tenant.get(tenant, ()))

    def is_shared(self, number: int) -> bool:
        """Whether messages of several tenants have come from a lane since it was empty."""
        return number in self._shared

    def key_of(self, number: int) -> Key | None:
        """Return whose a lane is; None if that is not known."""
        return self._keys.get(number)

    def owners(self) -> list[tuple[int, str, str]]:
        """Return whose lanes are of which that is known: numbers, tenants and parts."""
        return [(number, *key) for number, key in self._keys.items() if not is_nobodys(key[0])]

    def all_come(self, number: int) -> bool:
        """Whether all that a lane has was asked for already."""
        return self.coming[number] >= self.depths.get(number, 0)

    def belongs(self, number: int, key: Key) -> None:
        """A lane is a key's."""
        self._keys[number] = key
        self._of.setdefault(key, []).append(number)
        tenant = key[0]
        if not is_nobodys(tenant):
            self._of_tenant[tenant].add(number)
            if self._last.setdefault(number, tenant) != tenant:
                self._shared.add(number)

    def grew(self, number: int) -> None:
        """A message was put into a lane."""
        self.depths[number] = self.depths.get(number, 0) + 1

    def empty(self, number: int) -> Key | None:
        """A lane has no messages; return its key if that has no lane now."""
        self.depths.pop(number, None)
        self._last.pop(number, None)
        self._shared.discard(number)
        return self.lost(number)

    def lost(self, number: int) -> Key | None:
        """It is not known any more whose a lane is; return that key if it has no lane now."""
        key = self._keys.pop(number, None)
        if key is None:
            return None
        if not is_nobodys(key[0]):
            self._of_tenant[key[0]].discard(number)
            if not self._of_tenant[key[0]]:
                del self._of_tenant[key[0]]
        lanes = self._of[key]
        lanes.remove(number)
        if lanes:
            return None
        del self._of[key]
        return key


class Rounds:
    """Which of many to look at now, when only so many a second are to be looked at.

    They are numbered from 0, and taken one after the other, again and again. What is owed is
    counted by the clock, so that one who comes late, and now and then, looks at more: between two
    looks at the same one pass ``count / rate`` seconds, and the time for which nobody asked, at the
    most.

    Arguments:
        rate: how many a second.
        now: when all of them have been looked at.
    """

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._paid_until = now
        self._next = 0

    def due(self, count: int, now: float) -> list[int]:
        """Return those that are to be looked at now, of so many; none twice."""
        owed = int(self._rate * (now - self._paid_until))
        self._paid_until += owed / self._rate
        first, some = self._next, min(owed, count)
        if some:
            self._next = (first + some) % count
        return [(first + step) % count for step in range(some)]
