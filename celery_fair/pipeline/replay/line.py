"""Messages, and what waits in a queue, in the order in which it is to start.

A plain queue is first come, first served. One that is shared by key has a line for each key, and
the worker's own rule (`core.keys.tags`) says whose is next; a key that has reached its cap,
or whose leash is tight, is left out meanwhile. As on Redis, where all workers go by the same tags.
"""

import math
from collections import Counter, deque
from random import Random
from typing import NamedTuple

from celery_fair.core.gate import LocalLeash
from celery_fair.core.keys.fair_key import read_key
from celery_fair.core.keys.tags import Served, TenantTags
from celery_fair.pipeline.replay.scenario import KeyPlan, Plan


class Message(NamedTuple):
    """One of the trace; the trace is in the order of `arrives`.

    Attributes:
        published: seconds since 1970, or any other time.
        runtime: seconds of work.
        key: whose it is, as its publisher wrote it.
        handover: seconds that it takes from a slot's becoming free to the start of the work, if the
            message waits for the slot; else from its arrival.
        transit: seconds from the publication to the arrival at the worker.
    """

    published: float
    queue: str
    task: str
    cost_key: str | None
    runtime: float
    key: str | None = None
    handover: float = 0.0
    transit: float = 0.0

    @property
    def arrives(self) -> float:
        """When the worker has it."""
        return self.published + self.transit


class Start(NamedTuple):
    """One of the replay."""

    message: Message
    at: float


class Taken(NamedTuple):
    """A message that is to start, and by which turn of its key's.

    Attributes:
        is_first: whether nothing of its key waited when it came, or there are no keys.
    """

    message: Message
    turn: Served | None = None
    charge: float = 0.0
    is_first: bool = True


class PlainLine:
    """First come, first served.

    Attributes:
        wake_at: when to ask for the head again although nothing has happened.
    """

    __slots__ = ("_waiting",)

    wake_at = math.inf

    def __init__(self) -> None:
        self._waiting: deque[Message] = deque()

    def __len__(self) -> int:
        """How many are sent ahead, or would be if the workers' windows were larger."""
        return len(self._waiting)

    def put(self, message: Message) -> bool:
        """A message was published; return whether it may be the head now."""
        self._waiting.append(message)
        return len(self._waiting) == 1

    def head(self, now: float) -> Message | None:
        """Return the message that is to start next, if one may."""
        return self._waiting[0] if self._waiting else None

    def take(self, now: float, usual: float) -> Taken:
        """Take the head; a key is charged `usual` for it, for now."""
        return Taken(self._waiting.popleft())

    def ended(self, taken: Taken, cost: float) -> bool:
        """It has ended, and cost so much; return whether another one may be the head now."""
        return False


class KeyedLine:
    """Shared by key.

    Arguments:
        queue: its name; first charges are spread by it, in the same way in each replay.
    """

    def __init__(self, queue: str, plan: Plan) -> None:
        random = Random(queue)  # noqa: S311 - nobody gains by guessing it
        self._plan = plan
        self._tags = TenantTags(
            lambda tenant: self._of(tenant).weight, lambda: 0.5 + random.random()
        )
        self._lanes: dict[tuple[str, str], deque[Message]] = {}
        self._running: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._first: dict[str, Message] = {}
        self._leashes: dict[str, LocalLeash] = {}
        self._held: dict[str, float] = {}
        self.wake_at = math.inf

    def change(self, plan: Plan) -> None:
        """Go on with other options of keys."""
        self._plan = plan
        self._leashes.clear()
        self._release(list(self._held))

    def __len__(self) -> int:
        return 0  # whose is next is said when a slot is free

    def put(self, message: Message) -> bool:
        key = read_key(message.key)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = deque()
        lane.append(message)
        if not self._waiting[key[0]]:
            self._first[key[0]] = message
        self._waiting[key[0]] += 1
        if len(lane) == 1:
            self._tags.arrive(*key)
        return True

    def head(self, now: float) -> Message | None:
        if now >= self.wake_at:
            self._release([key for key, until in self._held.items() if until <= now])
        while (first := self._tags.first()) is not None:
            until = self._closed_until(first[0], now)
            if until <= now:
                return self._lanes[first][0]
            self._tags.tenants.hold(first[0])
            self._held[first[0]] = until
            self.wake_at = min(self.wake_at, until)
        return None

    def take(self, now: float, usual: float) -> Taken:
        first = self._tags.first()
        assert first is not None
        tenant = first[0]
        lane = self._lanes[first]
        message = lane.popleft()
        if not lane:
            del self._lanes[first]
        turn = self._tags.serve(*first, usual, bool(lane))
        self._running[tenant] += 1
        if tenant in self._leashes:
            self._leashes[tenant].take(now)
        self._waiting[tenant] -= 1
        is_first = self._first.get(tenant) is message
        if is_first:
            del self._first[tenant]
        return Taken(message, turn, usual, is_first)

    def ended(self, taken: Taken, cost: float) -> bool:
        turn = taken.turn
        assert turn is not None
        self._running[turn.tenant] -= 1
        if not self._running[turn.tenant]:
            del self._running[turn.tenant]
        if cost != taken.charge:
            self._tags.settle(turn, cost - taken.charge)
        if self._held.get(turn.tenant) == math.inf:
            self._release([turn.tenant])
        return True

    def _of(self, tenant: str) -> KeyPlan:
        usual = self._plan.usual
        assert usual is not None
        return self._plan.keys.get(tenant, usual)

    def _closed_until(self, tenant: str, now: float) -> float:
        plan = self._of(tenant)
        if plan.max_in_flight is not None and self._running[tenant] >= plan.max_in_flight:
            return math.inf
        if plan.rate is None:
            return now
        leash = self._leashes.get(tenant)
        if leash is None:
            leash = self._leashes[tenant] = LocalLeash(plan.rate, plan.burst, now)
        return leash.when(now)

    def _release(self, tenants: list[str]) -> None:
        for tenant in tenants:
            del self._held[tenant]
            self._tags.tenants.release(tenant)
        self.wake_at = min(self._held.values(), default=math.inf)


Line = PlainLine | KeyedLine
"""Of one queue."""
