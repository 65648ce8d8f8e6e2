"""Start-time fair queueing (SFQ): shares among keys that nobody wrote down beforehand.

Terms
-----
*key*: who messages belong to, a tenant, say; a tenant's messages may in turn belong to its *parts*.
*weight*: a key's share, relative to that of the others. *charge*: what serving one message is
reckoned to take, before it is known. *start tag*: what a key was charged so far, divided by its
weight; a key has one while it has something to serve. *finish tag*: the same of a key that has
nothing left. *virtual time*: where newcomers begin, the largest start tag that was served so far,
or a little more.

The rule (Goyal, Vin & Cheng, "Start-time Fair Queuing", 1996)
--------------------------------------------------------------
A key that gets something to serve begins at the virtual time, or at its finish tag if that is
larger. Who has the least start tag is served; its tag grows by charge / weight. While i and j both
have something to serve

    |S_i / w_i - S_j / w_j|  <=  Max_i / w_i + Max_j / w_j

with S the cost served, w the weight, Max the largest charge. Whoever was not ahead is served before
all that are, as soon as its message is here: unlike in a round, of which a newcomer is the last.

What is different here
----------------------
*Spread.* Keys of equal weights that are served in turns have equal tags: all of them are at the
virtual time at once, and a newcomer is one of many. So the first charge of a key that begins is
drawn at random, between half of it and one and a half: afterwards one key at a time is at the
virtual time. On average that costs nobody anything; it adds half of Max / w to the bound. (Temporal
does so when a message is published.)

*Settlement.* What a message took is known when it has ended. The difference to what was charged is
added to the key's tag then, whether it still has something to serve or not.

*Two levels.* Parts share what their tenant gets, by tags and a virtual time of their own. So a
tenant that spreads its messages over many parts gains nothing.

*Progress.* Newcomers begin at the virtual time. If there were always another, a key for each
message say, it would stand still, and those that wait for it would starve; so it advances with
every message, by half of what all waiting keys together are served meanwhile. (In a fluid system
it would by all of that; but then newcomers would come after those who are behind by chance.) It is
never by more than half a message of whoever has no key: else one message of a key that weighs a
millionth would set newcomers back by a million.

*Holds.* A tenant that may start nothing for now, for a cap or a leash, is left out; it keeps its
tag, and begins at the virtual time if that is larger when it is let go.

Of equal tags the one that comes first in the alphabet is served, as in a sorted set of Redis's,
which the same rule runs on.

Whatever a tag says, the present weight decides how fast it grows: another weight counts from the
next message on, whenever its messages were published.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from random import random
from typing import NamedTuple

_FEW = 64
"""Entries that may be out of date without their being sorted out."""

_LAG = 2
"""How much slower than in a fluid system the virtual time advances, if it is not by start tags."""

_Entry = tuple[float, str]
"""A tag, and the key that has it."""


def spread() -> float:
    """Return the factor of a first charge: between a half and one and a half, one on average."""
    return 0.5 + random()  # noqa: S311 - nobody gains by guessing it


class Tags:
    """One level: keys by their start tags.

    Arguments:
        weight: says what a key weighs now, above zero.
        spread: returns the factor of a key's first charge.

    Attributes:
        virtual: the virtual time.
        weight: says what a key weighs now.
        waiting: those that have something to serve, and may.
        held: those that have something to serve, and may not; with their start tags.
    """

    __slots__ = (
        *("_ahead", "_finish", "_fresh", "_heap", "_spread"),
        *("held", "virtual", "waiting", "weight"),
    )

    def __init__(
        self, weight: Callable[[str], float], spread: Callable[[], float] = spread
    ) -> None:
        self.virtual = 0.0
        self.weight = weight
        self._spread = spread
        self.waiting: dict[str, _Entry] = {}
        self._heap: list[_Entry] = []  # what is not the one in `waiting` is out of date
        self.held: dict[str, float] = {}
        self._fresh: set[str] = set()  # of those that wait or are held: not charged since
        self._finish: dict[str, float] = {}  # of those that have nothing, and were ahead
        self._ahead = 0  # of these, when that was last looked at

    def __len__(self) -> int:
        """How many keys have something to serve, and may."""
        return len(self.waiting)

    def __contains__(self, key: str) -> bool:
        """Whether a key has something to serve."""
        return key in self.waiting or key in self.held

    def arrive(self, key: str) -> None:
        """The key has something to serve; if that is no news, nothing changes."""
        if key not in self:
            self._fresh.add(key)
            self._wait(key, max(self.virtual, self._finish.pop(key, 0.0)))

    def first(self) -> str | None:
        """Return the key with the least start tag, None if there is none."""
        heap, waiting = self._heap, self.waiting
        while heap:
            entry = heap[0]
            if waiting.get(entry[1]) is entry:
                return entry[1]
            heappop(heap)
        return None

    def tag(self, key: str) -> float | None:
        """Return a key's start tag, None if it has nothing to serve."""
        entry = self.waiting.get(key)
        return self.held.get(key) if entry is None else entry[0]

    def serve(self, key: str, charge: float, more: bool) -> float:
        """The next message of a key is served; return its finish tag, for `settle`.

        Arguments:
            charge: what that is reckoned to take.
            more: whether the key has another.

        Raises:
            KeyError: the key has nothing to serve, or is held.
        """
        entry = self.waiting[key]
        start = entry[0]
        step = charge / self.weight(key)
        least = start if self._heap[0] is entry else self._least()
        most = charge / self.weight("")
        self.virtual = max(self.virtual, least) + min(step / len(self.waiting), most) / _LAG
        if key in self._fresh:
            self._fresh.remove(key)
            step *= self._spread()
        finish = start + step
        if more and self._heap[0] is entry:
            heapreplace(self._heap, self._new(key, finish))
        elif more:
            self._wait(key, finish)
        else:
            del self.waiting[key]
            self._end(key, finish)
        return finish

    def _least(self) -> float:
        """Return the least start tag: who is served out of turn sets nobody back."""
        first = self.first()
        assert first is not None  # or nobody could be served
        return self.waiting[first][0]

    def settle(self, key: str, finish: float, difference: float, unused: bool = False) -> None:
        """What was served took `difference` more, or less, than was charged.

        Arguments:
            finish: what `serve` returned.
            unused: whether nothing has started: the virtual time has advanced for nothing then, and
                who comes would begin behind all that.
        """
        step = difference / self.weight(key)
        if unused and self.waiting:
            self._forget()  # they were not ahead
            self.virtual += max(step / len(self.waiting), difference / self.weight("")) / _LAG
        entry = self.waiting.get(key)
        if entry is not None:
            self._wait(key, entry[0] + step)
        elif key in self.held:
            self.held[key] += step
        else:
            known = self._finish.pop(key, finish)
            self._end(key, (known if known > self.virtual else finish) + step)

    def pass_by(self, step: float) -> None:
        """Others have advanced by so much beyond those who have nothing, and are ahead."""
        self._finish = {key: finish - step for key, finish in self._finish.items()}
        self._forget()

    def drop(self, key: str) -> None:
        """The key has nothing to serve any more, and was not served for that."""
        tag = self.tag(key)
        if tag is not None:
            self.waiting.pop(key, None)
            self.held.pop(key, None)
            self._fresh.discard(key)
            self._end(key, tag)

    def hold(self, key: str) -> None:
        """Leave a key out that has something to serve.

        Raises:
            KeyError: it has nothing, or is held already.
        """
        self.held[key] = self.waiting.pop(key)[0]

    def release(self, key: str) -> None:
        """Let a key that was held take part again.

        Raises:
            KeyError: it is not held.
        """
        self._wait(key, max(self.virtual, self.held.pop(key)))

    def _new(self, key: str, tag: float) -> _Entry:
        entry = self.waiting[key] = (tag, key)
        return entry

    def _wait(self, key: str, tag: float) -> None:
        heappush(self._heap, self._new(key, tag))
        if len(self._heap) > 2 * len(self.waiting) + _FEW:
            self._heap = list(self.waiting.values())
            heapify(self._heap)

    def _end(self, key: str, finish: float) -> None:
        if not self.waiting and not self.held:  # whoever comes next comes first
            self.virtual = max([self.virtual, finish, *self._finish.values()])
            self._heap.clear()
            self._finish.clear()
            self._ahead = 0
        elif finish > self.virtual:
            self._finish[key] = finish
            if len(self._finish) > 2 * self._ahead + _FEW:
                self._forget()

    def _forget(self) -> None:
        """Those that are not ahead any more would begin at the virtual time in any case."""
        ahead = {key: finish for key, finish in self._finish.items() if finish > self.virtual}
        self._finish, self._ahead = ahead, len(ahead)


class Served(NamedTuple):
    """What was served, for `TenantTags.settle`."""

    tenant: str
    part: str
    finish: float
    part_finish: float


class Turn(NamedTuple):
    """By which turn of whose a message came.

    Attributes:
        finish, part_finish: as in `Served`; where a server keeps the tags, as it has written them.
        charged: what its key was charged.
        has: "place" if it has one of those that may run at once, and a token besides if there is a
            leash; "token" for that alone; "left" when it has left them.
        begins: its tenant had nothing else waiting when it came.
        place: what its place is called.
    """

    tenant: str
    part: str
    finish: float | str
    part_finish: float | str
    charged: float
    has: str = ""
    begins: bool = False
    place: str = ""


class TenantTags:
    """Two levels: tenants by their weights, and each one's parts, which weigh the same.

    Most tenants have one part at a time, and then it is only remembered which.

    Arguments:
        weight: says what a tenant weighs now, above zero.
        spread: returns the factor of a first charge.

    Attributes:
        tenants: the upper level.
    """

    __slots__ = ("_parts", "_spread", "tenants")

    def __init__(
        self, weight: Callable[[str], float], spread: Callable[[], float] = spread
    ) -> None:
        self.tenants = Tags(weight, spread)
        self._spread = spread
        self._parts: dict[str, str | Tags] = {}  # of tenants that have something to serve

    def arrive(self, tenant: str, part: str = "") -> None:
        """A part of a tenant has something to serve; if that is no news, nothing changes."""
        parts = self._parts.setdefault(tenant, part)
        if isinstance(parts, str) and parts != part:
            only, parts = parts, Tags(_alike, self._spread)
            self._parts[tenant] = parts
            parts.arrive(only)
        if isinstance(parts, Tags):
            parts.arrive(part)
        self.tenants.arrive(tenant)

    def first(self) -> tuple[str, str] | None:
        """Return whose message is next: the tenant and the part; None if there is none."""
        tenant = self.tenants.first()
        if tenant is None:
            return None
        parts = self._parts[tenant]
        if isinstance(parts, str):
            return tenant, parts
        part = parts.first()
        assert part is not None  # or the tenant would have nothing
        return tenant, part

    def serve(self, tenant: str, part: str, charge: float, more: bool) -> Served:
        """The next message of a part is served; see `Tags.serve`.

        Arguments:
            more: whether the part has another.

        Raises:
            KeyError: there is no such tenant or part.
        """
        parts = self._parts[tenant]
        part_finish = 0.0
        if isinstance(parts, Tags):
            part_finish = parts.serve(part, charge, more)
            more = len(parts) > 0
        finish = self.tenants.serve(tenant, charge, more)
        if not more:
            del self._parts[tenant]
        return Served(tenant, part, finish, part_finish)

    def settle(self, served: Served, difference: float, unused: bool = False) -> None:
        """What was served took `difference` more, or less, than was charged; as `Tags.settle`."""
        self.tenants.settle(served.tenant, served.finish, difference, unused)
        parts = self._parts.get(served.tenant)
        if isinstance(parts, Tags):
            parts.settle(served.part, served.part_finish, difference, unused)

    def drop(self, tenant: str, part: str) -> None:
        """A part has nothing to serve any more, and was not served for that."""
        parts = self._parts.get(tenant)
        if isinstance(parts, Tags):
            parts.drop(part)
        if parts == part or (isinstance(parts, Tags) and not len(parts)):
            del self._parts[tenant]
            self.tenants.drop(tenant)


def _alike(part: str) -> float:  # noqa: ARG001
    return 1.0
