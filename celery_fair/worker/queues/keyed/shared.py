"""A queue on RabbitMQ that is shared fairly by key, where workers have a store of keys.

It is as in `lanes`, and besides:

*In step.* Each worker tells others what it serves, and adds what they serve to its tags, so that
keys get their shares of all of them together, and soon.

*Limits.* A key that has a cap, a leash or a pause asks the store first. One that may not start
anything is left out for a while; its message in the front is moved out of the way, and so is one
that turns out to be such a key's when it has come from a lane. None of its messages is asked for
ahead: it would take a place, and not run.

*Spare lanes.* Keys share lanes if there may be no more of them. Where one that is to wait stands
before others, its messages are moved to a spare lane, which is kept for such tenants alone, one for
each: all workers use the same, as the store says which. So whoever is behind it comes to the front.
That is done beside what starts, in a tenth of the time, or all of it if nothing else may start. Two
tenants may get into one spare lane, if that was another's until a moment ago. It is known once both
one's messages have come from it; then the one that is to wait gets another.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from time import monotonic
from typing import Any

from celery_fair.brokers.keyed.scripts import Left
from celery_fair.clock import elapsed
from celery_fair.core.keys.elsewhere import Elsewhere
from celery_fair.core.keys.front import LimitedLanes, Permit
from celery_fair.core.keys.lanes import Key, is_nobodys
from celery_fair.core.keys.tags import Served, TenantTags, Turn
from celery_fair.worker.queues.delivery import message_of
from celery_fair.worker.queues.keyed.by_key import KeyedParts, Placed
from celery_fair.worker.queues.keyed.lane_watch import LaneWatch
from celery_fair.worker.queues.keyed.lanes import LanesFeed, has_left
from celery_fair.worker.queues.keyed.store import StoreLink

_EVERY, _AT_ONCE = 0.05, 8
"""Seconds between two looks at lanes that could be looked into, and how many are then."""

_SAME = 1.0
"""Seconds for which a tenant's spare lane is not asked for again."""

_REST = 9
"""How many times as long as something was moved others are served, before more is."""


class SpareLanes(LimitedLanes):
    """A choice that lets those be looked into whose first message is of one that is to wait.

    Arguments:
        link: says which spare lane is whose.
        watch: knows which lanes are empty.
    """

    def __init__(
        self,
        tags: TenantTags,
        link: StoreLink,
        watch: LaneWatch,
        unused: Callable[[str, Permit], object],
    ) -> None:
        super().__init__(tags, link, unused)
        self._link = link
        self._watch = watch
        self._covered: set[int] = set()  # whose first message is of one that is to wait
        self._spares: dict[str, tuple[int, float]] = {}  # and until when that is so
        self._owners: dict[int, str] = {}
        self._look_again_at = self._moving_since = self._rests_until = 0.0

    def begin(self, now: float) -> None:
        """Let those be looked into, too, whose first message can be moved."""
        super().begin(now)
        if not self._covered or now < self._look_again_at:
            return
        self._look_again_at = now + _EVERY
        for number in list(islice(self._covered, _AT_ONCE)):
            key = self.lanes.key_of(number)
            waits = key is not None and self.tags.tenants.holds(key[0])
            if key is not None and waits and self._spare_of(key[0]) is None:
                break  # nor has another, for now
            self._covered.discard(number)
            if waits:
                self.reopen(number)

    def hold(self, tenant: str) -> None:
        """A tenant is to wait; who shares lanes with it is not."""
        super().hold(tenant)
        self._covered.update(filter(self._is_shared, self.lanes.lanes_of(tenant)))

    def place_for(self, tenant: str, number: int) -> int:
        """Return the lane that a message goes to that came from this one, and is to wait."""
        self._moving_since = monotonic()
        if not self._is_shared(number):
            return number
        if self._stored(tenant) == number:  # and others' messages have come from it
            self._forget(number)
        spare = self._spare_of(tenant)
        return number if spare is None else spare

    def put_back(self, key: Key, number: int, to: int) -> None:
        """A message that came from this lane is in that one now."""
        self.lanes.grew(to)
        if to != number:
            if self.lanes.key_of(to) is None:
                self._belongs(to, key)
            now = monotonic()
            self._rests_until = now + _REST * (now - self._moving_since)
            self._covered.discard(number)
            self.reopen(number)

    def nothing_else(self, now: float) -> bool:
        """Nothing else may start: go on with it; return whether there is something to be moved."""
        goes_on = now < self._rests_until
        self._rests_until = 0.0
        return goes_on

    def _permit(self, key: Key) -> Permit | None:
        if is_nobodys(key[0]) and monotonic() < self._rests_until:  # others have their turn
            self.hold(key[0])
            return None
        return super()._permit(key)

    def _is_empty(self, number: int) -> None:
        super()._is_empty(number)
        self._covered.discard(number)
        if self._watch.is_spare(number):
            self._forget(number)

    def _is_shared(self, number: int) -> bool:
        if self._watch.is_spare(number):
            return self.lanes.is_shared(number)
        return self._watch.may_be_shared(number)

    def _spare_of(self, tenant: str) -> int | None:
        """Return a tenant's own lane for what is to wait; None while there is none."""
        spare = self._stored(tenant)
        if spare is not None:
            return spare
        offered = self._watch.spare_for(self.lanes.depths, len(self._covered) or 1)
        if offered is None:
            return None
        spare = self._link.spare(tenant, offered)
        if spare is not None and spare != offered:
            self._watch.spared(offered)
        return self._remember(tenant, spare)

    def _stored(self, tenant: str) -> int | None:
        """Return its lane, as all workers have it; as it was a moment ago."""
        spare, until = self._spares.get(tenant, (None, 0.0))
        if monotonic() < until:
            return spare
        return self._remember(tenant, self._link.spare(tenant))

    def _remember(self, tenant: str, spare: int | None) -> int | None:
        before, _ = self._spares.pop(tenant, (None, 0.0))
        if before is not None:
            self._owners.pop(before, None)
        if spare is not None:
            self._spares[tenant] = spare, monotonic() + _SAME
            self._owners[spare] = tenant
        return spare

    def _forget(self, number: int) -> None:
        """A spare lane is nobody's any more."""
        tenant = self._owners.pop(number, "")
        self._spares.pop(tenant, None)
        self._link.spare(tenant, given_up=number)


_LOOK = 0.005
"""Seconds until more is moved out of shared lanes if nothing may start."""


class SharedTags(TenantTags):
    """Tells others what is served here, but for what is nobody's, and adds what they serve."""

    __slots__ = ("_elsewhere", "_link")

    def __init__(self, link: StoreLink) -> None:
        super().__init__(link.weight)
        self._link = link
        link.listen(self.tenants.__contains__)
        self._elsewhere = Elsewhere(self.tenants, is_nobodys)

    def serve(self, tenant: str, part: str, charge: float, more: bool) -> Served:
        served = super().serve(tenant, part, charge, more)
        self._elsewhere.served(charge)
        self._tell(tenant, charge)
        return served

    def settle(self, served: Served, difference: float) -> None:
        super().settle(served, difference)
        self._elsewhere.settled(difference)
        self._tell(served.tenant, difference)

    def hear(self) -> None:
        """Take in what others have served since it was last done."""
        heard = self._link.heard()
        if heard is not None:
            self._elsewhere.reported(*heard)

    def _tell(self, tenant: str, cost: float) -> None:
        if not is_nobodys(tenant):
            self._link.tell(tenant, cost)


class SharedLanesFeed(Placed, LanesFeed):
    """Takes the message of the key with the least tag that may start one."""

    _choice: SpareLanes

    def _chooses(self, parts: KeyedParts) -> SpareLanes:
        assert parts.link is not None
        self._link = parts.link
        self._tags = SharedTags(parts.link)
        return SpareLanes(self._tags, parts.link, self._watch, self._unused)

    def live_weights(self) -> Mapping[str, float]:
        return self._link.live_weights()

    def die(self) -> None:
        for pick in filter(None, self._picked):
            self._choice.give_up(pick)
        super().die()

    def ask_at(self, started: int) -> float:
        """Return when to ask; at once if something of a key that waits has ended."""
        if self._may_ask and self._choice.have_room:
            return 0.0
        return min(super().ask_at(started), self._choice.ask_at)

    def take(self, now: float, started: int) -> Any:
        item = super().take(now, started)
        if item is None and self._choice.nothing_else(now):
            self._wait, self._ask_at = 0.0, now + _LOOK
        return item

    def ended(self, message: Any) -> None:
        super().ended(message)
        if message.turn is not None and message.turn.has == "left":
            self._choice.ended(message.turn.tenant)

    def _return(self, item: Any) -> None:
        self.buffer.append(item)

    def _get(self) -> int:
        left = super()._get()
        self.withheld = left if self._choice.some_wait and self._next() is None else 0
        return left

    def _hear(self) -> None:
        """Take in what others served, too, and say which places are free again."""
        self._tags.hear()
        super()._hear()
        left = self._leases.left(self.name)
        if left and not self._link.leave(left):
            self._leases.untold(self.name, left)

    def _choose(self) -> None:
        """Let one start first that has come due, and has left its place before."""
        for message in [message_of(item) for item in self.buffer if has_left(item)]:
            permit = self._choice.may(message.turn.tenant)
            if permit is not None:
                self._comes_by(message, message.turn._replace(has=permit.has, place=permit.place))
                return
        super()._choose()

    def _comes_by(self, message: Any, turn: Turn, number: int | None = None) -> bool:
        super()._comes_by(message, turn)
        if turn.has == "left" and number is not None:
            self._put_back(message, number)
        elif turn.has == "place":
            self._leases.take(self.name, message, elapsed())
        return turn.has != "left"

    def _put_back(self, message: Any, number: int) -> None:
        """It is of a key that is to wait: into a lane for that, or back, behind what is there.

        What the broker does not take stays here, and starts when its key may.
        """
        to = self._choice.place_for(message.turn.tenant, number)
        if self.dispositions.move(message, self._watch.name_of(to)) and not self.dead:
            self.buffer.remove(message)
            self._choice.put_back(message.turn[:2], number, to)

    def _unused(self, tenant: str, permit: Permit) -> None:
        """Nothing has started by a permit."""
        self._leases.untold(self.name, [Left(tenant, permit.place, True)])
