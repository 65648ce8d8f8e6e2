"""A queue on RabbitMQ that is shared fairly by key: a front, and lanes behind it.

What is published in passing is in the queue itself, the front; who publishes in floods has a lane
(see `celery_fair.brokers.lanes`). A worker holds the front's first message, whose key it has to
know. When a slot is free, the least tag decides (see `celery_fair.core.tags`):
that message starts, or one is taken out of the lane of the key whose turn it is. Then the front's
first message is in the way: it is moved to a lane, and the next one is looked at.

Whose messages are in a lane is known from those that came from it; a lane that nothing came from
yet is a newcomer. If it has turned out to be another's, that one is charged.

While tasks are short, the next turns' messages are asked for before their slots are free, with the
acknowledgements of those that start: the broker's answer is here by then. They are charged when
they are asked for. What has not started after a moment goes back, for what runs now is long. None
is asked for so of a limited key, whose place it would take; nor where non-repeatable tasks are to
be reckoned with (see `unstarted`): what a lost connection takes away would be dead letters.

The tags are this worker's own. All workers see the same front and lanes, and each gives every key
the same part of its slots; so do all of them together, in the long run. With a store of keys they
tell each other what they serve, and do so soon (see `shared_tags`).

Where a Redis keeps count of what keys run (see `rules`), a key that has a cap, a leash or a pause
asks it first. One that may not start anything is left out for a while; its message in the front is
moved out of the way, and so is one that turns out to be such a key's when it has come from a lane.
Where it keeps others waiting in a lane that they share, see `shared_lanes`.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic, time
from typing import Any, NamedTuple

from amqp import ChannelError, NotFound, RecoverableConnectionError

from celery_fair.brokers.keyed.lists import Left, Turn
from celery_fair.clock import elapsed
from celery_fair.core.sketch import RecentKeys
from celery_fair.core.tags import Served
from celery_fair.worker.queues.delivery import message_of
from celery_fair.worker.queues.feed import Seen
from celery_fair.worker.queues.keyed.ahead import Ahead
from celery_fair.worker.queues.keyed.exchange import Exchange
from celery_fair.worker.queues.keyed.known_lanes import (
    Key,
    KnownLanes,
    is_nobodys,
    nobody_in,
)
from celery_fair.worker.queues.keyed.lane_watch import LaneWatch, whose
from celery_fair.worker.queues.keyed.placed import Placed
from celery_fair.worker.queues.keyed.rules import Permit, QueueRules
from celery_fair.worker.queues.keyed.shared_lanes import SharedLanes
from celery_fair.worker.queues.keyed.shared_tags import SharedTags
from celery_fair.worker.queues.keyed.unstarted import Unstarted
from celery_fair.worker.queues.keyed.waiting import WaitingTenants
from celery_fair.worker.queues.pulled import PulledAmqpFeed
from celery_fair.worker.wire.questions import Questions

__all__ = ["KeyedAmqpFeed", "Sorting"]

_SEEN = 200
"""Lanes, those that have most, and keys that were served most, of which is told who asks."""

_LOOK = 0.005
"""Seconds between two looks into a front that was empty, while lanes have messages."""

_SORTING = 0.02
"""Seconds for which the front's messages are moved out of the way, one at least, before a start."""

_AHEAD = 0.015
"""Seconds of work that are asked for at once: the broker's answer is waited for that much less."""

_LONG = 0.25
"""Seconds after which one that has not started goes back: what runs now takes longer."""


class _Pick(NamedTuple):
    """A lane's next message is whose turn it is, as far as is known."""

    number: int
    key: Key
    permit: Permit
    charge: float
    served: Served


class Sorting:
    """How long the front's messages are moved, before one starts: one move, however slow."""

    def __init__(self) -> None:
        self.began = monotonic()
        self._moved = False

    def goes_on(self) -> bool:
        """Return whether one more may be moved."""
        first, self._moved = not self._moved, True
        return first or not self.is_over

    @property
    def is_over(self) -> bool:
        """Whether it has taken long enough."""
        return monotonic() >= self.began + _SORTING


class KeyedAmqpFeed(Placed, PulledAmqpFeed):
    """Takes the message of the key with the least tag.

    Arguments:
        rules: what keys may, and weigh.
        watch: knows which lanes have messages.
        free: returns how many slots are free.
        exchange: tells other workers what is served here, and hears of theirs.
        unstarted: says whether more may be asked for than start at once.
        later: calls something after so many seconds.
    """

    def __init__(
        self,
        *,
        rules: QueueRules,
        watch: LaneWatch,
        free: Callable[[], int],
        exchange: Exchange,
        unstarted: Unstarted,
        later: Callable[[float, Callable[[], object]], object],
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._rules = rules
        self._watch = watch
        self._unstarted = unstarted
        self._ahead = Ahead(_AHEAD, free) if unstarted.may_wait(self.name) else None
        self._later = later
        self._will_look = False  # at what has not started
        self._questions = Questions(self.channel, self._acks)
        self._tags = SharedTags(rules.weight, exchange)
        self._waiting = WaitingTenants(rules, self._tags.tenants)
        self._head: Any = None  # the front's first message, if it is here
        self._begins = False  # whether its tenant had nothing else waiting when it came
        self._front = 1  # how many were left there: some, until somebody has looked
        self._look_at = 0.0  # when what is known of that is too old
        self._known = KnownLanes()
        self._shared = SharedLanes(
            self._known, watch, self._tags.tenants, rules, self._nobody_knows
        )
        self._started = RecentKeys(_SEEN)
        self._covered: set[int] = (
            set()
        )  # lanes with others' messages perhaps, behind one that waits
        self._digs = False  # whether some are being looked through
        self._picked: deque[_Pick | None] = deque()  # in lanes; None: in the front

    def live_weights(self) -> Mapping[str, float]:
        return self._rules.live_weights()

    def seen(self, tenant: str | None) -> Seen:
        owners, started = self._known.owners(), self._started.counts(time())
        owners.sort(key=lambda each: -self._known.depths.get(each[0], 0))
        lanes = owners[:_SEEN]
        if tenant is not None:
            lanes = [each for each in owners if each[1] == tenant]
            started = {tenant: started.get(tenant, 0)}
        tenants = {owner for _, owner, _ in lanes} | started.keys()
        tags, now = self._tags.tenants, self._tags.tenants.virtual
        ahead = {each: tag - now for each in tenants if (tag := tags.tag(each)) is not None}
        weights = {each: self._rules.weight(each) for each in tenants}
        known = [number for number, *_ in owners]
        return Seen(known=known, lanes=lanes, started=started, weights=weights, ahead=ahead)

    def open(self) -> None:
        self._watch.start(self._news.found)
        super().open()

    def cancel(self) -> None:
        self._watch.stop()
        super().cancel()

    def die(self) -> None:
        self._watch.stop(wait=False)  # the broker may be away, and a reconnect must not wait
        self._head = None
        for pick in filter(None, self._picked):
            self._unused(pick.key[0], pick.permit)
        self._picked.clear()
        super().die()

    def hand_back(self) -> None:
        while self._picked:
            self._have_come()
        head, self._head = self._head, None
        if head is not None:
            self._drop_if_none(whose(head))
        for item in self.buffer:
            self.charged(item, 0.0)
        super().hand_back()

    def ask_at(self, started: int) -> float:
        """Return when to ask; at once if the watch has found something."""
        if self._may_ask and (self._watch.found or self._waiting.have_room or self._picked):
            return 0.0
        return min(super().ask_at(started), self._waiting.ask_at())

    def next_cost(self, cost: Any) -> float | None:
        found = super().next_cost(cost)
        comes = found is None and self._picked and self._may_ask
        return self.flow.last_cost if comes else found

    def take(self, now: float, started: int) -> Any:
        item = super().take(now, started)
        if item is None and self._shared.nothing_else(now):
            self._wait, self._ask_at = 0.0, now + _LOOK
        turn = None if item is None else message_of(item).turn
        if turn is not None:
            self._started.add(turn.tenant, time())
        if item is not None and self._ahead is not None and self._may_ask:
            self._ask_ahead(self._ahead.count(self.given, now) - 1)
        return item

    def ended(self, message: Any) -> None:
        super().ended(message)
        if message.turn is not None and message.turn.has == "left":
            self._waiting.ended(message.turn.tenant)

    def _closed(self, number: int, reason: Exception) -> None:
        if self._picked and not self.dead and isinstance(reason, NotFound):
            self._refused(reason)  # what was asked; it is declared again
        else:
            super()._closed(number, reason)

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
        left = self._front + sum(self._known.depths.values()) + (self._head is not None)
        came = len(self.buffer) - (self._head is not None) > had
        self.withheld = left if self._waiting and not came else 0
        return left

    def _leave(self) -> None:
        """Say which places are free again, and let those try again who may have waited for them."""
        left = self._leases.left(self.name)
        if left and not self._rules.leave(left):
            self._leases.untold(self.name, left)
        self._waiting.release()
        self._shared.look()

    def _lets_due_start(self) -> bool:
        """Let a message start that has come due, and has left its place before."""
        for item in self.buffer:
            if _has_left(item):
                message = message_of(item)
                permit = self._waiting.may(message.turn.tenant)
                if permit is not None:
                    self._permitted(message, message.turn, permit)
                    return True
        return False

    def _permitted(self, message: Any, turn: Turn, permit: Permit) -> None:
        message.come_by(turn._replace(has=permit.has, place=permit.place))
        if permit.has == "place":
            self._leases.take(self.name, message, elapsed())

    def _unused(self, tenant: str, permit: Permit) -> None:
        """Nothing has started by it."""
        if permit.has:
            self._leases.untold(self.name, [Left(tenant, permit.place, True)])

    def _hear(self) -> None:
        """Take in what others served, and which lanes have messages."""
        self._tags.hear()
        for number, depth, key in self._watch.take():
            if number not in self._known.depths:
                self._belongs(number, key or nobody_in(number))
            self._known.depths[number] = max(depth, self._known.depths.get(number, 0))

    def _belongs(self, number: int, key: Key) -> None:
        self._known.belongs(number, key)
        self._tags.arrive(*key)

    def _choose(self) -> None:
        """Bring the message whose turn it is to the head of the buffer, if there is one."""
        sorting, done = Sorting(), False
        while not (self.dead or done):
            done = self._have_come() if self._picked else self._has_chosen(sorting)

    def _has_chosen(self, sorting: Sorting) -> bool:
        """Make a step; return whether it was the last."""
        head = self._first_of_front()
        turn = self._tags.first()
        if self.dead:
            return True
        if turn is None:  # or the front's first message is of a key that is to wait
            return not (head is not None and sorting.goes_on() and self._move(head))
        if head is not None and turn != whose(head) and sorting.goes_on() and self._move(head):
            return False
        permit = self._permit(turn)
        if permit is None:
            return False
        if head is not None and turn == whose(head):
            self._head = None  # it is in the buffer, and chosen by that
            self._serve(head, turn, permit, self._begins)
            return True
        more = 0
        empty = head is None and self._look_at > sorting.began
        if self._ahead is not None and empty:  # or more would pass by what is in the front
            more = self._ahead.count(self.given, monotonic()) - 1
        self._ask([self._pick(turn, permit), *self._more_picks(more)])
        return self._have_come()

    def _permit(self, turn: Key) -> Permit | None:
        """Return what may be taken by; None if nothing may, and another is to be chosen."""
        if not is_nobodys(turn[0]):
            permit = self._waiting.may(turn[0])
            if permit is None:
                self._hold(turn)
            return permit
        if self._shared.rest:  # until the next time
            self._waiting.hold(turn[0])
            return None
        return Permit()

    def _first_of_front(self) -> Any:
        """Return the front's first message, which is fetched if it may be there."""
        if self._head is None and self._may_be_there():
            self._ask([None])
            while self._picked:
                self._have_come()
        return self._head

    def _may_be_there(self) -> bool:
        """Whether the front may have a message.

        Beside lanes it is only counted what it has, with what is asked of them: that costs RabbitMQ
        a fraction of an answer that there is none, of a quorum queue a fifteenth.
        """
        if self._front or not self._known.depths:
            return True
        now = monotonic()
        if self._tags.first() is None and now >= self._look_at:  # nothing is asked of any lane
            self._front, self._look_at = self._depth(), now + _LOOK
        return self._front > 0

    def _move(self, head: Any) -> bool:
        """Move the front's first message to a lane of its key, out of the way."""
        key = whose(head)
        own = self._known.first_of(key)
        number = self._watch.lane_for(self._known.depths) if own is None else own
        if number is None or not self.custody.move(head, self._watch.name_of(number)) or self.dead:
            return False
        self.buffer.remove(head)
        self._head = None
        if own is None:
            self._belongs(number, key)
        self._known.depths[number] = self._known.depths.get(number, 0) + 1
        return True

    def _ask_ahead(self, most: int) -> None:
        """Ask for messages whose turn is soon, to be here by then; wait for nothing.

        Arguments:
            most: how many may be here then, or on their way.
        """
        have = len(self._picked) + len(self.buffer)
        if self._head is None and not self._front and have <= most // 2:
            self._ask(self._more_picks(most - have))

    def _more_picks(self, most: int) -> list[_Pick | None]:
        """Pick so many, until one's lane has no more for certain, or its key may have to wait.

        A limited key's message would have a place, and not run.
        """
        picks: list[_Pick | None] = []
        while len(picks) < most:
            turn = self._tags.first()
            number = None if turn is None else self._known.first_of(turn)
            if turn is None or number is None or self._rules.is_limited(turn[0]):
                break
            is_heads = self._head is not None and turn == whose(self._head)
            if is_heads or self._known.all_come(number):
                break
            picks.append(self._pick(turn, Permit()))
        return picks

    def _pick(self, turn: Key, permit: Permit) -> _Pick:
        """A message is to be taken out of a lane for this turn."""
        number, charge = self._known.first_of(turn), self._usual()
        assert number is not None  # or it would not be its turn
        self._known.coming[number] += 1
        return _Pick(number, turn, permit, charge, self._tags.serve(*turn, charge, True))

    def _ask(self, picks: Sequence[_Pick | None]) -> None:
        """Ask for what was picked, and now and then how many messages the front has."""
        if not picks:
            return
        self._picked.extend(picks)
        names = [self._watch.name_of(pick.number) if pick else self.name for pick in picks]
        counted, now = None, monotonic()
        if picks[0] and now >= self._look_at:
            counted, self._look_at = self.name, now + _LOOK
        try:
            self._questions.ask(counted, names)
        except ChannelError as exc:
            self._refused(exc)
        self._look_later(self._ahead is not None)

    def _have_come(self) -> bool:
        """Take in what has been asked for; return whether there is anything that may start."""
        try:
            self._questions.wait()
        except RecoverableConnectionError:
            if self.dead:  # the broker has closed the channel, which has been told
                return False
            raise
        counted = self._questions.take_count()
        if counted is not None:
            self._front = counted
        came = False
        while self._questions.answers and not self.dead:
            pick, raw = self._picked.popleft(), self._questions.answers.popleft()
            if pick is None:
                self._comes_first(raw)
            else:
                self._known.coming[pick.number] -= 1
                came = self._comes(pick, raw) or came
        return came

    def _comes_first(self, raw: Any) -> None:
        """The front's first message has come, if there is one."""
        self._front, self._look_at = 0, monotonic() + _LOOK
        if raw is not None:
            self._head = head = self._received(raw)
            self._front = int(raw.delivery_info["message_count"])
            key = whose(head)
            self._begins = key[0] not in self._tags.tenants
            self._tags.arrive(*key)

    def _comes(self, pick: _Pick, raw: Any) -> bool:
        """A lane's answer has come; return whether it is a message that may start."""
        key, permit, served = pick.key, pick.permit, pick.served
        message = None if raw is None else self._came_from(pick.number, raw)
        mine = None if message is None else whose(message)
        if mine != key:
            self._tags.settle(served, -pick.charge)
        asks = mine is not None and self._is_to_ask(mine, key)
        if mine is None or asks:
            self._unused(key[0], permit)
        if mine is None:
            self._is_empty(pick.number)
            return False
        if asks:
            other = self._waiting.may(mine[0])
            if other is None:
                self._put_back(message, pick.number, mine)
                return False
            permit = other
        if mine != key:
            served = self._tags.serve(*mine, pick.charge, True)
        if not self._known.depths[pick.number]:
            self._is_empty(pick.number)
        turn = Turn(*mine, served.finish, served.part_finish, pick.charge)
        self._permitted(message, turn, permit)
        return True

    def _is_to_ask(self, mine: Key, key: Key) -> bool:
        """Whether a message that was taken for another key has to ask whether it may start."""
        return mine[0] != key[0] or (mine != key and self._tags.tenants.holds(key[0]))

    def _received(self, raw: Any) -> Any:
        message = self.channel.message_to_python(raw)
        self._unsettled += 1
        self._receive(message)
        if self._ahead is not None and self.custody.starts_once(message):
            self._ahead = None  # what is here starts in its turn
            self._unstarted.came_once(self.name)
        return message

    def _came_from(self, number: int, raw: Any) -> Any:
        """A lane's next message has come, and may be another's than was thought."""
        message = self._received(raw)
        message.belongs_to(self.name)
        key = whose(message)
        if self._known.key_of(number) != key:
            before = self._known.lost(number)
            if before is not None:
                self._drop_if_none(before)
            self._belongs(number, key)
        self._known.depths[number] = int(raw.delivery_info["message_count"])
        return message

    def _hold(self, key: Key) -> None:
        """A key is to wait; who shares a lane with it is not."""
        self._waiting.hold(key[0])
        self._shared.hold(key[0])

    def _nobody_knows(self, number: int) -> None:
        """It is not known whose message is next in a lane."""
        key = self._known.lost(number)
        if key is not None:
            self._drop_if_none(key)
        self._belongs(number, nobody_in(number))

    def _put_back(self, message: Any, number: int, key: Key) -> None:
        """It is of a key that is to wait: into a lane for that, or back, behind what is there.

        What the broker does not take stays here, and starts when its key may.
        """
        self._hold(key)
        to = self._shared.place_for(key[0], number)
        if not self.custody.move(message, self._watch.name_of(to)) or self.dead:
            message.come_by(Turn(*key, 0.0, 0.0, 0.0, has="left"))
            return
        self.buffer.remove(message)
        self._known.depths[to] = self._known.depths.get(to, 0) + 1
        if to != number:
            if self._known.key_of(to) is None:
                self._belongs(to, key)
            self._shared.moved(number)

    def _give_back_what_waits(self) -> None:
        """Let other workers have what was to start soon, and has not."""
        self._will_look = False
        while self._picked:
            self._have_come()
        ahead = [item for item in self.buffer if self._is_ahead(item)]
        late = [message for message in ahead if message.arrived <= monotonic() - _LONG]
        for message in late:
            self.charged(message, 0.0)
        self.custody.give_back(late)
        for message in late:
            if message.acknowledged:
                self.buffer.remove(message)
        self._look_later(bool(ahead))

    @staticmethod
    def _is_ahead(item: Any) -> bool:
        """Whether it is a message that was chosen before a slot was free."""
        turn = getattr(item, "turn", None)  # a request has none
        return turn is not None and turn.has != "left"

    def _look_later(self, some: bool) -> None:
        if some and not self._will_look and not self.dead:
            self._will_look = True
            self._later(_LONG, self._give_back_what_waits)

    def _serve(self, message: Any, key: Key, permit: Permit, begins: bool = False) -> None:
        charge = self._usual()
        served = self._tags.serve(*key, charge, self._has_more(key))
        turn = Turn(*key, served.finish, served.part_finish, charge, begins=begins)
        self._permitted(message, turn, permit)

    def _has_more(self, key: Key) -> bool:
        return key in self._known or (self._head is not None and whose(self._head) == key)

    def _is_empty(self, number: int) -> None:
        """A lane has no messages."""
        self._shared.ran_out(number)
        key = self._known.empty(number)
        if key is not None:
            self._drop_if_none(key)

    def _drop_if_none(self, key: Key) -> None:
        if not self._has_more(key):
            self._tags.drop(*key)


def _has_left(item: Any) -> bool:
    """Whether a message has come due, and is to ask once more whether it may start."""
    turn = message_of(item).turn
    return turn is not None and turn.has == "left"
