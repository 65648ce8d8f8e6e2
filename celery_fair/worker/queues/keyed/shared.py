"""A queue on RabbitMQ that is shared fairly by key, where workers have a store of keys.

It is as in `lanes`, and besides:

*In step.* Each worker tells others what it serves, and adds what they serve to its tags, so that
keys get their shares of all of them together, and soon.

*Limits.* A key that has a cap, a leash or a pause asks the store first. One that may not start
anything is left out for a while; its message in the front is moved out of the way, and so is one
that turns out to be such a key's when it has come from a lane. Where it keeps others waiting in a
lane that they share, see `spare_lanes`. None of its messages is asked for ahead: it would take a
place, and not run.
"""

from collections.abc import Mapping
from typing import Any

from celery_fair.brokers.keyed.lists import Left
from celery_fair.clock import elapsed
from celery_fair.core.elsewhere import Elsewhere
from celery_fair.core.front import Permit
from celery_fair.core.lanes import is_nobodys
from celery_fair.core.tags import Served, TenantTags, Turn
from celery_fair.worker.queues.delivery import message_of
from celery_fair.worker.queues.keyed.by_key import KeyedParts, Placed
from celery_fair.worker.queues.keyed.lanes import LanesFeed
from celery_fair.worker.queues.keyed.spare_lanes import SpareLanes
from celery_fair.worker.queues.keyed.store import StoreLink

__all__ = ["SharedLanesFeed", "SharedTags"]

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

    def _may_start(self, item: Any) -> bool:
        return super()._may_start(item) and not _has_left(item)

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
        for message in [message_of(item) for item in self.buffer if _has_left(item)]:
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
        if self.custody.move(message, self._watch.name_of(to)) and not self.dead:
            self.buffer.remove(message)
            self._choice.put_back(message.turn[:2], number, to)

    def _unused(self, tenant: str, permit: Permit) -> None:
        """Nothing has started by a permit."""
        self._leases.untold(self.name, [Left(tenant, permit.place, True)])


def _has_left(item: Any) -> bool:
    """Whether a message has come due, and is to ask once more whether it may start."""
    turn = message_of(item).turn
    return turn is not None and turn.has == "left"
