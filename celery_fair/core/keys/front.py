"""The choice between a queue's front and its lanes: whose message is next, and where it is.

A queue that is shared by key has a *front*, where what is published in passing waits in its order,
and *lanes*, behind it, where the messages wait of keys that publish in floods. The tags say whose
turn it is (see `celery_fair.core.keys.tags`); here it is found out where that key's message is.

The rule
--------
The front's first message is held, for its key has to be known. If it is that key's turn, it starts.
Else it is in the way of those behind it: it is moved to a lane of its key, and the next one is
looked at, for `SORTING` seconds, but one at least, however slow that is. Then the message is taken
from a lane of the key whose turn it is.

Whose messages are in a lane is known from those that came from it. A lane that nothing came from
yet is *nobody's*, and a newcomer. If a message turns out to be another key's than was thought, that
key is charged, and the other gets its charge back.

While several slots are free, several are picked at once, and charged at once; but for a lane of
which all messages are on their way already, and for what stands behind the front's first message.

Steps
-----
`FrontAndLanes.step` says what is to be done; who does it says what came of it (`front_is`,
`counted`, `moved`, `came`), and asks again, until a message starts or the step is None. So this
knows neither brokers nor clocks. A step is one of these:

==================  ==============================================================================
`Front.GET`         get the front's first message
`Front.COUNT`       ask how many messages the front has
`Move`              move the front's first message to a lane, a new one if it says None
`Take`              get a message from this lane, and more (see `FrontAndLanes.more`) if it is sure
                    that none of the front's comes before
`Turn`              the front's first message starts, by this turn
==================  ==============================================================================

Tenants that may start nothing
------------------------------
`LimitedLanes` asks before a message starts, or is taken, whether its tenant may: for its cap, its
rate, or as somebody has paused it. One that may not is left out until it is to be asked again. What
comes from a lane for another key, and is such a tenant's, is to be put back (`Turn.has` is "left").
"""

import math
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple, Protocol

from celery_fair.core.keys.lanes import Key, KnownLanes, is_nobodys, nobody_in
from celery_fair.core.keys.tags import Served, TenantTags, Turn

SORTING = 0.02
"""Seconds for which the front's messages are moved out of the way before a start."""

LOOK = 0.005
"""Seconds for which a front that was empty counts as empty, while lanes have messages."""


class Permit(NamedTuple):
    """A message may start; the attributes are as in `Turn`."""

    has: str = ""
    place: str = ""


class Pick(NamedTuple):
    """A lane's next message is whose turn it is, as far as is known."""

    number: int
    key: Key
    charge: float
    served: Served
    permit: Permit


class Front(Enum):
    """What is to be asked of the front."""

    GET = auto()
    COUNT = auto()


class Move(NamedTuple):
    """The front's first message is in the way."""

    number: int | None
    """Of its key's lane; None if that has none, and needs one that none is known to be in."""


class Take(NamedTuple):
    """A lane's next message is to be taken."""

    pick: Pick
    sure: bool
    """Whether others may be taken with it, as nothing in the front comes before them."""


Step = Front | Move | Take | Turn


class FrontAndLanes:
    """Of one queue. Time is an argument, on the monotonic clock.

    Arguments:
        tags: those of the queue's keys.

    Attributes:
        lanes: what is known of them.
        head: whose the front's first message is, if that is here.
        front: how many messages the front has besides; some, until somebody has looked.
    """

    def __init__(self, tags: TenantTags) -> None:
        self.tags = tags
        self.lanes = KnownLanes()
        self.head: Key | None = None
        self.front = 1
        self._head_begins = False  # its tenant had nothing else waiting when it came
        self._look_at = 0.0  # when what is known of the front is too old
        self._began = 0.0
        self._has_looked = self._may_move = False

    @property
    def left(self) -> int:
        """How many messages the queue is known to have."""
        return self.front + sum(self.lanes.depths.values()) + (self.head is not None)

    # What is to be done --------------------------------------------------------------

    def begin(self, now: float) -> None:
        """A message is wanted: the front may be sorted for a while."""
        self._began, self._has_looked, self._may_move = now, False, True

    def step(self, charge: float, now: float) -> Step | None:
        """Return what is to be done next, None if nothing may start.

        Arguments:
            charge: what a message is reckoned to take.
        """
        while True:
            if self.head is None and (front := self._look(now)) is not None:
                return front
            key = self.tags.first()
            if self.head is not None and key != self.head and self._may_move:
                return Move(self.lanes.first_of(self.head))
            if key is None:
                return None
            permit = self._permit(key)
            if permit is None:  # another's turn comes
                continue
            if key == self.head:
                self.head = None
                served = self.tags.serve(*key, charge, key in self.lanes)
                return Turn(*served, charge, permit.has, self._head_begins, permit.place)
            sure = self.head is None and self._look_at > self._began
            return Take(self._pick(key, charge, permit), sure)

    def more(self, most: int, charge: float) -> list[Pick]:
        """Pick so many more, until one's lane has no more for certain, or its key may have to wait.

        A limited key's message would have a place, and not run.
        """
        picks: list[Pick] = []
        while len(picks) < most and (key := self.tags.first()) is not None:
            number = self.lanes.first_of(key)
            if number is None or key == self.head or self.lanes.all_come(number):
                break
            if self._may_wait(key[0]):
                break
            picks.append(self._pick(key, charge, Permit()))
        return picks

    def counts(self, now: float) -> bool:
        """Whether the front is to be counted with what is asked of lanes now."""
        counts = now >= self._look_at
        if counts:
            self._look_at = now + LOOK
        return counts

    def _look(self, now: float) -> Front | None:
        """Return what is to be asked of the front, if it may have a message.

        Beside lanes it is only counted what it has, with what is asked of them: that costs RabbitMQ
        a fraction of an answer that there is none, of a quorum queue a fifteenth.
        """
        if self.front or not (self.lanes.depths or self._has_looked):
            return Front.GET
        if self.lanes.depths and self.tags.first() is None and self.counts(now):
            return Front.COUNT  # as nothing is asked of any lane
        return None

    def _pick(self, key: Key, charge: float, permit: Permit) -> Pick:
        number = self.lanes.first_of(key)
        assert number is not None  # or it would not be its turn
        self.lanes.coming[number] += 1
        return Pick(number, key, charge, self.tags.serve(*key, charge, True), permit)

    def _permit(self, key: Key) -> Permit | None:
        """Return what a message may start by; None if none may, and its tenant is left out."""
        return Permit()

    def _may_wait(self, tenant: str) -> bool:
        """Whether a tenant's message might have to wait for another's end."""
        return False

    # What came of it -----------------------------------------------------------------

    def front_is(self, key: Key | None, left: int, now: float) -> None:
        """The front's first message has come, and so many are left; None: none is here."""
        before, self.head, self.front = self.head, key, left
        self._look_at, self._has_looked = now + LOOK, True
        if key is not None:
            self._head_begins = key[0] not in self.tags.tenants
            self.tags.arrive(*key)
        self._lost(before)

    def counted(self, messages: int) -> None:
        """The front has so many messages, besides its first if that is here."""
        self.front = messages

    def moved(self, number: int | None, now: float) -> None:
        """The front's first message is in this lane now; None: it stays where it is for now."""
        self._may_move = number is not None and now < self._began + SORTING
        if number is not None and self.head is not None:
            head, self.head = self.head, None
            if head not in self.lanes:
                self._belongs(number, head)
            self.lanes.grew(number)

    def came(self, pick: Pick, key: Key | None, left: int) -> Turn | None:
        """A lane's answer has come: a message of this key, with so many left; or there was none.

        Returns the turn that it starts by.
        """
        self._has_come(pick.number, key, left)
        served = pick.served
        if key != pick.key:
            self.tags.settle(served, -pick.charge, unused=key is None)
            if key is None:
                return None
            served = self.tags.serve(*key, pick.charge, True)
        if not left:
            self._is_empty(pick.number)
        return Turn(*served, pick.charge)

    def found(self, number: int, depth: int, key: Key | None = None) -> None:
        """A lane has messages, and the next is this key's, or nobody knows whose."""
        if number not in self.lanes.depths:
            self._belongs(number, key or nobody_in(number))
        self.lanes.depths[number] = max(depth, self.lanes.depths.get(number, 0))

    def reopen(self, number: int) -> None:
        """It is not known any more whose message is next in a lane."""
        self._lost(self.lanes.lost(number))
        self._belongs(number, nobody_in(number))

    def _has_come(self, number: int, key: Key | None, left: int) -> None:
        self.lanes.coming[number] -= 1
        if key is None:
            self._is_empty(number)
            return
        if self.lanes.key_of(number) != key:
            self._lost(self.lanes.lost(number))
            self._belongs(number, key)
        self.lanes.depths[number] = left

    def _belongs(self, number: int, key: Key) -> None:
        self.lanes.belongs(number, key)
        self.tags.arrive(*key)

    def _is_empty(self, number: int) -> None:
        self._lost(self.lanes.empty(number))

    def _lost(self, key: Key | None) -> None:
        """A key, if it is one, has lost a lane, or the front's first message."""
        if key is not None and key not in self.lanes and key != self.head:
            self.tags.drop(*key)


class Limits(Protocol):
    """What tenants may start; in the whole cluster, as a store says."""

    def is_limited(self, tenant: str) -> bool:
        """Whether a tenant has a cap, a leash or a pause."""

    def may(self, tenant: str) -> Permit | float:
        """Ask for a message's start; else return until when not to, on the monotonic clock."""


class LimitedLanes(FrontAndLanes):
    """Where tenants may be limited.

    Arguments:
        limits: what they may.
        unused: told of each permit that nothing has started by, and whose it was.
    """

    def __init__(
        self, tags: TenantTags, limits: Limits, unused: Callable[[str, Permit], object]
    ) -> None:
        super().__init__(tags)
        self._limits = limits
        self._unused = unused
        self._until: dict[str, float] = {}  # when tenants that wait are to be asked for again
        self._freed: deque[str] = deque()

    @property
    def some_wait(self) -> bool:
        """Whether there are tenants that may start nothing."""
        return bool(self._until)

    @property
    def have_room(self) -> bool:
        """Whether some of them may have: something of theirs has ended."""
        return bool(self._freed)

    @property
    def ask_at(self) -> float:
        """When to ask for one of them again; infinity if none waits."""
        return min(self._until.values(), default=math.inf)

    def ended(self, tenant: str) -> None:
        """Something of a tenant has ended; any thread may say so."""
        self._freed.append(tenant)

    def begin(self, now: float) -> None:
        """Let those try again, too, who have waited for long enough, or something of whom ended."""
        super().begin(now)
        while self._freed:
            self._until.pop(self._freed.popleft(), None)
        for tenant in [tenant for tenant, until in self._until.items() if until <= now]:
            del self._until[tenant]
        for tenant in list(self.tags.tenants.held):
            if tenant not in self._until:
                self.tags.tenants.release(tenant)

    def may(self, tenant: str) -> Permit | None:
        """Return what a message of a tenant may start by; None if its tenant is to wait."""
        if tenant in self._until:
            return None
        answer = self._limits.may(tenant)
        if isinstance(answer, Permit):
            return answer
        self._until[tenant] = answer
        return None

    def hold(self, tenant: str) -> None:
        """It is not a tenant's turn as long as it waits."""
        if tenant in self.tags.tenants.waiting:
            self.tags.tenants.hold(tenant)

    def came(self, pick: Pick, key: Key | None, left: int) -> Turn | None:
        permit, mine = pick.permit, pick.key
        is_anothers = key is not None and key[0] != mine[0]
        asks = is_anothers or (key != mine and mine[0] in self.tags.tenants.held)
        if key is not None and asks:
            found = self.may(key[0])
            if found is None:
                self._has_come(pick.number, key, left)
                self.tags.settle(pick.served, -pick.charge, unused=True)
                self.give_up(pick)
                self.hold(key[0])
                return Turn(*key, 0.0, 0.0, 0.0, has="left")
            permit = found
        if key is None or asks:
            self.give_up(pick)
        turn = super().came(pick, key, left)
        if turn is None or not permit.has:
            return turn
        return turn._replace(has=permit.has, place=permit.place)

    def give_up(self, pick: Pick) -> None:
        """A pick's answer will not come."""
        if pick.permit.has:
            self._unused(pick.key[0], pick.permit)

    def _permit(self, key: Key) -> Permit | None:
        if is_nobodys(key[0]):
            return Permit()
        permit = self.may(key[0])
        if permit is None:
            self.hold(key[0])
        return permit

    def _may_wait(self, tenant: str) -> bool:
        return self._limits.is_limited(tenant)
