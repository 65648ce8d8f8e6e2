"""Lanes for what is to wait, on RabbitMQ.

A key that has a cap, a leash or a pause asks the store of keys first. One that may not start
anything is left out for a while; its message in the front is moved out of the way, and so is one
that turns out to be such a key's when it has come from a lane.

Keys share lanes if there may be no more of them. Where one that is to wait stands before others,
its messages are moved to a spare lane, which is kept for such tenants alone, one for each: all
workers use the same, as the store says which. So whoever is behind it comes to the front. That is
done in a fifth of the time. Two tenants may get into one spare lane, if that was another's until a
moment ago. It is known once both one's messages have come from it; then the one that is to wait
gets another.
"""

from collections.abc import Callable
from itertools import islice
from time import monotonic

from celery_fair.core.keys.front import LimitedLanes, Permit
from celery_fair.core.keys.lanes import Key
from celery_fair.core.keys.tags import TenantTags
from celery_fair.worker.queues.keyed.lane_watch import LaneWatch
from celery_fair.worker.queues.keyed.store import StoreLink

_EVERY, _AT_ONCE = 0.05, 8
"""Seconds between two looks at lanes that could be looked into, and how many are then."""

_MOVING = 0.01
"""Seconds from then on for which a lane out of which a message was moved is looked into again."""


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
        self._look_again_at = self._moves_until = 0.0

    def begin(self, now: float) -> None:
        """Let those be looked into, too, whose first message can be moved."""
        super().begin(now)
        if not self._covered or now < self._look_again_at:
            return
        self._look_again_at, self._moves_until = now + _EVERY, now + _MOVING
        for number in list(islice(self._covered, _AT_ONCE)):
            key = self.lanes.key_of(number)
            waits = key is not None and key[0] in self.tags.tenants.held
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
        if not self._is_shared(number):
            return number
        # A spare lane that others' messages have come from is given up.
        spare = self._spare_of(tenant, number if self._watch.is_spare(number) else None)
        return number if spare is None else spare

    def put_back(self, key: Key, number: int, to: int) -> None:
        """A message that came from this lane is in that one now."""
        self.lanes.grew(to)
        if to != number:
            if self.lanes.key_of(to) is None:
                self._belongs(to, key)
            if monotonic() < self._moves_until:
                self._covered.discard(number)
                self.reopen(number)

    def _is_empty(self, number: int) -> None:
        super()._is_empty(number)
        self._covered.discard(number)
        if self._watch.is_spare(number):
            self._link.spare("", given_up=number)

    def _is_shared(self, number: int) -> bool:
        if self._watch.is_spare(number):
            return self.lanes.is_shared(number)
        return self._watch.may_be_shared(number)

    def _spare_of(self, tenant: str, given_up: int | None = None) -> int | None:
        """Return a tenant's own lane for what is to wait; None while there is none."""
        offered = self._watch.spare_for(self.lanes.depths, len(self._covered) or 1)
        spare = self._link.spare(tenant, offered, given_up)
        if offered is not None and spare is not None and spare != offered:
            self._watch.spared(offered)
        return spare
