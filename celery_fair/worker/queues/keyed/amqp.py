"""A queue on RabbitMQ that is shared fairly by key: a front, and lanes behind it.

What is published in passing is in the queue itself, the front; who publishes in floods has a lane
(see `celery_fair.brokers.lanes`). A worker holds nothing of either but the front's first message,
whose key it has to know. When a slot is free, the least tag decides (see `celery_fair.core.tags`):
that message starts, or one is taken out of the lane of the key whose turn it is. Then the front's
first message is in the way: it is moved to a lane, and the next one is looked at.

Whose messages are in a lane is known from those that came from it; a lane that nothing came from
yet is a newcomer. If it has turned out to be another's, that one is charged.

The tags are this worker's own. All workers see the same front and lanes, and each gives every key
the same part of its slots; so do all of them together, in the long run.

Where a Redis keeps count of what keys run (see `rules`), a key that has a cap, a leash or a pause
asks it first. One that may not start anything is left out for a while; its message in the front is
moved out of the way, and so is one that turns out to be such a key's when it has come from a lane.
"""

import math
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

from amqp import ChannelError

from celery_fair.brokers.keyed.lists import Left, Turn
from celery_fair.core.tags import Served, TenantTags
from celery_fair.worker.queues.delivery import message_of
from celery_fair.worker.queues.keyed.lane_watch import LaneWatch, whose
from celery_fair.worker.queues.keyed.placed import Placed
from celery_fair.worker.queues.keyed.rules import Permit, QueueRules
from celery_fair.worker.queues.pulled import PulledAmqpFeed

__all__ = ["KeyedAmqpFeed"]

_LOOK = 0.005
"""Seconds between two looks into a front that was empty, while lanes have messages."""

_SORTING = 0.02
"""Seconds for which the front's first messages are moved out of the way, before one is started."""

_Key = tuple[str, str]  # a tenant, and a part of it


class KeyedAmqpFeed(Placed, PulledAmqpFeed):
    """Takes the message of the key with the least tag.

    Arguments:
        rules: what keys may, and weigh.
        watch: knows which lanes have messages.
    """

    def __init__(self, *, rules: QueueRules, watch: LaneWatch, **options: Any) -> None:
        super().__init__(**options)
        self._rules = rules
        self._watch = watch
        self._tags = TenantTags(rules.weight)
        self._held: dict[str, float] = {}  # tenants that may start nothing, until when to ask
        self._freed: deque[str] = deque()  # tenants of which something has ended
        self._head: Any = None  # the front's first message, if it is here
        self._begins = False  # whether its tenant had nothing else waiting when it came
        self._front = 0  # how many were left there
        self._look_at = 0.0
        self._depths: dict[int, int] = {}  # of lanes that have messages
        self._lanes_of: dict[_Key, list[int]] = {}  # those, by whose they are, as far as is known

    def live_weights(self) -> Mapping[str, float]:
        return self._rules.live_weights()

    def open(self) -> None:
        self._watch.start(self._news.found)
        super().open()

    def cancel(self) -> None:
        self._watch.stop()
        super().cancel()

    def die(self) -> None:
        self._watch.stop(wait=False)  # the broker may be away, and a reconnect must not wait
        self._head = None
        super().die()

    def hand_back(self) -> None:
        self._head = None
        for item in self.buffer:
            self._leases.leave(self.name, message_of(item), unused=True)
        super().hand_back()

    def ask_at(self, started: int) -> float:
        """Return when to ask; at once if the watch has found something."""
        if self._watch.found or self._freed:
            return 0.0
        return min(super().ask_at(started), *self._held.values(), math.inf)

    def ended(self, message: Any) -> None:
        super().ended(message)
        if message.turn.has == "left":
            self._freed.append(message.turn.tenant)

    def _return(self, item: Any) -> None:
        self.buffer.append(item)

    @property
    def _is_full(self) -> bool:
        """What has come due, and may not start yet, keeps nobody else from it."""
        return False

    def _next(self) -> int | None:
        """Return the place of what was chosen, or has come due."""
        for place, item in enumerate(self.buffer):
            if item is not self._head and not _has_left(item):
                return place
        return None

    def _get(self) -> int:
        while self._settled:
            turn, difference = self._settled.popleft()
            finishes = float(turn.finish), float(turn.part_finish)
            self._tags.settle(Served(turn.tenant, turn.part, *finishes), difference)
        self._hear()
        self._leave()
        had = len(self.buffer) - (self._head is not None)
        if not self._lets_due_start():
            self._choose()
        left = self._front + sum(self._depths.values()) + (self._head is not None)
        came = len(self.buffer) - (self._head is not None) > had
        self.withheld = left if self._held and not came else 0
        return left

    def _leave(self) -> None:
        """Say which places are free again, and let those try again who may have waited for them."""
        left = self._leases.left(self.name)
        if left and not self._rules.leave(left):
            self._leases.untold(self.name, left)
        while self._freed:
            self._held.pop(self._freed.popleft(), None)
        now = monotonic()
        for tenant in [tenant for tenant, until in self._held.items() if until <= now]:
            del self._held[tenant]
        tenants = self._tags.tenants
        for tenant in tenants.held:
            if tenant not in self._held:
                tenants.release(tenant)

    def _may(self, tenant: str) -> Permit | None:
        """Ask for a message's start; None if its tenant is to wait."""
        if tenant in self._held:
            return None
        answer = self._rules.may(tenant)
        if isinstance(answer, Permit):
            return answer
        self._held[tenant] = answer
        return None

    def _hold(self, tenant: str) -> None:
        with suppress(KeyError):  # it is held already
            self._tags.tenants.hold(tenant)

    def _lets_due_start(self) -> bool:
        """Let a message start that has come due, and has left its place before."""
        for item in self.buffer:
            if _has_left(item):
                message = message_of(item)
                permit = self._may(message.turn.tenant)
                if permit is not None:
                    self._permitted(message, message.turn, permit)
                    return True
        return False

    def _permitted(self, message: Any, turn: Turn, permit: Permit) -> None:
        message.come_by(turn._replace(has=permit.has, place=permit.place))
        if permit.has == "place":
            self._leases.take(self.name, message, monotonic())

    def _unused(self, tenant: str, permit: Permit) -> None:
        """Nothing has started by it."""
        if permit.has:
            self._leases.untold(self.name, [Left(tenant, permit.place, True)])

    def _hear(self) -> None:
        """Take in which lanes have messages."""
        for number, depth, key in self._watch.take():
            if number not in self._depths:
                self._belongs(number, key or (f"\0lane {number}", ""))
            self._depths[number] = max(depth, self._depths.get(number, 0))

    def _belongs(self, number: int, key: _Key) -> None:
        self._lanes_of.setdefault(key, []).append(number)
        self._tags.arrive(*key)

    def _choose(self) -> None:
        """Bring the message whose turn it is to the head of the buffer, if there is one."""
        until = monotonic() + _SORTING
        while not (self.dead or self._has_chosen(until)):
            pass

    def _has_chosen(self, until: float) -> bool:
        """Make a step; return whether it was the last."""
        head = self._first_of_front()
        turn = self._tags.first()
        if self.dead:
            return True
        if turn is None:  # or the front's first message is of a key that is to wait
            return not (head is not None and monotonic() < until and self._move(head))
        if head is not None and turn != whose(head) and monotonic() < until and self._move(head):
            return False
        permit = self._may(turn[0])
        if permit is None:
            self._hold(turn[0])
            return False
        if head is not None and turn == whose(head):
            self._head = None  # it is in the buffer, and chosen by that
            self._serve(head, turn, permit, self._begins)
            return True
        return self._taken_from(self._lanes_of[turn][0], turn, permit)

    def _first_of_front(self) -> Any:
        """Return the front's first message, which is fetched if it may be there."""
        if self._head is None and self._may_be_there():
            had = len(self.buffer)
            self._front = super()._get()
            if len(self.buffer) > had:
                self._head = self.buffer[-1]
                key = whose(self._head)
                self._begins = key[0] not in self._tags.tenants
                self._tags.arrive(*key)
        return self._head

    def _may_be_there(self) -> bool:
        """Whether the front may have a message.

        Beside lanes it is only counted what it has: that costs RabbitMQ a fraction of an answer
        that there is none, of a quorum queue a fifteenth.
        """
        if self._front or not self._depths:
            return True
        now = monotonic()
        if now >= self._look_at:
            self._front, self._look_at = self._depth(), now + _LOOK
        return self._front > 0

    def _move(self, head: Any) -> bool:
        """Move the front's first message to a lane of its key, out of the way."""
        key = whose(head)
        lanes = self._lanes_of.get(key)
        number = lanes[0] if lanes else self._watch.lane_for(self._depths)
        if number is None or not self.custody.move(head, self._watch.name_of(number)) or self.dead:
            return False
        self.buffer.remove(head)
        self._head = None
        if not lanes:
            self._belongs(number, key)
        self._depths[number] = self._depths.get(number, 0) + 1
        return True

    def _taken_from(self, number: int, turn: _Key, permit: Permit) -> bool:
        """Take a lane's next message, if it has one that may start."""
        message = None
        try:
            raw = self.channel.basic_get(self._watch.name_of(number))
        except ChannelError as exc:
            self._refused(exc)
        except Exception:  # the connection's end; re-raised
            self._unused(turn[0], permit)
            raise
        else:
            if raw is None:
                self._is_empty(number, turn)
            else:
                message = self._came_from(number, raw, turn)
        if message is None or whose(message)[0] != turn[0]:
            self._unused(turn[0], permit)
        if message is None:
            return False
        key = whose(message)
        if key[0] != turn[0]:
            other = self._may(key[0])
            if other is None:
                return self._has_put_back(message, number, key)
            permit = other
        self.buffer.rotate(1)
        if not self._depths[number]:
            del self._depths[number]
            self._forget(number, key)
        self._serve(message, key, permit)
        return True

    def _came_from(self, number: int, raw: Any, turn: _Key) -> Any:
        """A lane's next message has come for a turn, and may be another's."""
        left = int(raw.delivery_info["message_count"])
        message = self.channel.message_to_python(raw)
        message.belongs_to(self.name)
        self._unsettled += 1
        self._receive(message)
        key = whose(message)
        if key != turn:
            self._is_empty(number, turn)
            self._belongs(number, key)
        self._depths[number] = left
        return message

    def _has_put_back(self, message: Any, number: int, key: _Key) -> bool:
        """It is of a key that is to wait: back into the lane, behind what is there of that key.

        What the broker does not take stays here, and starts when its key may.
        """
        self._hold(key[0])
        if self.custody.move(message, self._watch.name_of(number)) and not self.dead:
            self.buffer.remove(message)
            self._depths[number] += 1
        else:
            message.come_by(Turn(*key, 0.0, 0.0, 0.0, has="left"))
        return self.dead

    def _serve(self, message: Any, key: _Key, permit: Permit, begins: bool = False) -> None:
        charge = self._usual()
        served = self._tags.serve(*key, charge, self._has_more(key))
        turn = Turn(*key, served.finish, served.part_finish, charge, begins=begins)
        self._permitted(message, turn, permit)

    def _has_more(self, key: _Key) -> bool:
        return key in self._lanes_of or (self._head is not None and whose(self._head) == key)

    def _is_empty(self, number: int, key: _Key) -> None:
        """A lane has none of a key's messages."""
        self._depths.pop(number, None)
        self._forget(number, key)
        if not self._has_more(key):
            self._tags.drop(*key)

    def _forget(self, number: int, key: _Key) -> None:
        lanes = self._lanes_of[key]
        lanes.remove(number)
        if not lanes:
            del self._lanes_of[key]


def _has_left(item: Any) -> bool:
    """Whether a message has come due, and is to ask once more whether it may start."""
    turn = message_of(item).turn
    return turn is not None and turn.has == "left"
