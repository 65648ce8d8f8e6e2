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
"""

from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any

from amqp import ChannelError

from celery_fair.brokers.keyed.lists import Turn
from celery_fair.core.tags import Served, TenantTags
from celery_fair.settings import KeyedQueue
from celery_fair.worker.queues.delivery import message_of
from celery_fair.worker.queues.keyed.lane_watch import LaneWatch, whose
from celery_fair.worker.queues.pulled import PulledAmqpFeed

__all__ = ["KeyedAmqpFeed"]

_LOOK = 0.005
"""Seconds between two looks into a front that was empty, while lanes have messages."""

_SORTING = 0.02
"""Seconds for which the front's first messages are moved out of the way, before one is started."""

_Key = tuple[str, str]  # a tenant, and a part of it


class KeyedAmqpFeed(PulledAmqpFeed):
    """Takes the message of the key with the least tag.

    Arguments:
        keyed: its entry in ``fair_keys``.
        usual: returns what to reckon for a message that is not here yet.
        watch: knows which lanes have messages.
    """

    def __init__(
        self, *, keyed: KeyedQueue, usual: Callable[[], float], watch: LaneWatch, **options: Any
    ) -> None:
        super().__init__(**options)
        self._usual = usual
        self._watch = watch
        weights, others = keyed.weights, keyed.weight
        self._tags = TenantTags(lambda tenant: weights.get(tenant, others))
        self._settled: deque[tuple[Served, float]] = deque()  # appended to by any thread
        self._head: Any = None  # the front's first message, if it is here
        self._begins = False  # whether its tenant had nothing else waiting when it came
        self._front = 0  # how many were left there
        self._look_at = 0.0
        self._depths: dict[int, int] = {}  # of lanes that have messages
        self._lanes_of: dict[_Key, list[int]] = {}  # those, by whose they are, as far as is known

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
        super().hand_back()

    def ask_at(self, started: int) -> float:
        """Return when to ask; at once if the watch has found something."""
        return 0.0 if self._watch.found else super().ask_at(started)

    def charged(self, item: Any, cost: float) -> None:
        """This is the message's cost, as far as it is known; nothing if it did not start."""
        message = message_of(item)
        turn: Turn | None = message.turn
        if turn is not None and cost != turn.charged:
            served = Served(turn.tenant, turn.part, float(turn.finish), float(turn.part_finish))
            self._settled.append((served, cost - turn.charged))
            message.come_by(turn._replace(charged=cost))

    def _next(self) -> int | None:
        """Return the place of what was chosen, or has come due."""
        return 0 if self.buffer and self.buffer[0] is not self._head else None

    def _get(self) -> int:
        while self._settled:
            self._tags.settle(*self._settled.popleft())
        self._hear()
        self._choose()
        return self._front + sum(self._depths.values()) + (self._head is not None)

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
        if self.dead or turn is None:
            return True
        if head is not None and turn == whose(head):
            self._head = None  # it is in the buffer, and chosen by that
            self._serve(head, whose(head), self._begins)
            return True
        if head is not None and monotonic() < until and self._move(head):
            return False
        return self._taken_from(self._lanes_of[turn][0], turn)

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

    def _taken_from(self, number: int, turn: _Key) -> bool:
        """Take a lane's next message, if it has one."""
        try:
            raw = self.channel.basic_get(self._watch.name_of(number))
        except ChannelError as exc:
            self._refused(exc)
            return False
        if raw is None:
            self._is_empty(number, turn)
            return False
        left = int(raw.delivery_info["message_count"])
        message = self.channel.message_to_python(raw)
        message.belongs_to(self.name)
        self._unsettled += 1
        self._receive(message)
        self.buffer.rotate(1)
        key = whose(message)
        if key != turn:
            self._is_empty(number, turn)
            self._belongs(number, key)
        self._depths[number] = left
        if not left:
            del self._depths[number]
            self._forget(number, key)
        self._serve(message, key)
        return True

    def _serve(self, message: Any, key: _Key, begins: bool = False) -> None:
        charge = self._usual()
        served = self._tags.serve(*key, charge, self._has_more(key))
        message.come_by(Turn(*key, served.finish, served.part_finish, charge, begins=begins))

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
