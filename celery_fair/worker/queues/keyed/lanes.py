"""A queue on RabbitMQ that is shared fairly by key, by tags of this worker's own.

What is published in passing is in the queue itself, the front; who publishes in floods has a lane
(see `celery_fair.brokers.lanes`). Whose turn it is, and where that key's message is,
`celery_fair.core.keys.front` says; here the broker is asked, and told.

While tasks are short, the next turns' messages are asked for before their slots are free, with the
acknowledgements of those that start: the broker's answer is here by then. They are charged when
they are asked for. What has not started after a moment goes back, for what runs now is long. None
is asked for so by a worker that knows a non-repeatable task: what a lost connection takes away
would be dead letters.

All workers see the same front and lanes, and each gives every key the same part of its slots; so do
all of them together, in the long run. With a store of keys it is soon: each worker tells others
what it serves, and adds what they serve to its tags. And keys may be limited there: see
`spare_lanes`. Of a limited key nothing is asked for ahead: it would take a place, and not run.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from time import monotonic, time
from typing import Any

from amqp import ChannelError, RecoverableConnectionError

from celery_fair.brokers.lanes import lane_name
from celery_fair.clock import elapsed
from celery_fair.core.keys.front import Front, Move, Pick, Take
from celery_fair.core.keys.sketch import RecentKeys
from celery_fair.core.keys.tags import Served, TenantTags, Turn
from celery_fair.core.window import Ahead
from celery_fair.worker.amqp_io.writer import Questions
from celery_fair.worker.queues.amqp import PulledAmqpFeed
from celery_fair.worker.queues.delivery import message_of
from celery_fair.worker.queues.keyed.by_key import LONG, KeyedFeed, KeyedParts, Seen
from celery_fair.worker.queues.keyed.lane_watch import LaneWatch, whose
from celery_fair.worker.queues.keyed.spare_lanes import SpareLanes
from celery_fair.worker.queues.keyed.store import SharedTags

_SEEN = 200
"""Lanes, those that have most, and keys that were served most, of which is told who asks."""

_AHEAD = 0.015
"""Seconds of work that are asked for at once: the broker's answer is waited for that much less."""


class LanesFeed(KeyedFeed, PulledAmqpFeed):
    """Takes the message of the key with the least tag.

    Arguments:
        watch: knows which lanes have messages.
    """

    def __init__(self, *, watch: LaneWatch, parts: KeyedParts, **options: Any) -> None:
        super().__init__(parts=parts, **options)
        self._watch = watch
        self._link = parts.link
        self._shared = SharedTags(parts.link) if parts.link.has_store else None
        self._choice = SpareLanes(
            self._shared or TenantTags(parts.link.weight),
            parts.link,
            watch,
            lambda tenant, permit: self._leases.unused(self.name, tenant, permit.place),
        )
        self._ahead = Ahead(_AHEAD, parts.free) if parts.asks_ahead else None
        self._will_look = False  # at what has not started
        self._questions = Questions(self.channel, self._acks)
        self._head: Any = None  # the front's first message, if it is here
        self._picked: deque[Pick | None] = deque()  # what is asked for: in lanes; None: in front
        self._started = RecentKeys(_SEEN)

    def live_weights(self) -> Mapping[str, float]:
        return self._link.live_weights()

    def seen(self, tenant: str | None) -> Seen:
        lanes, tags = self._choice.lanes, self._choice.tags.tenants
        owners, started = lanes.owners(), self._started.counts(time())
        owners.sort(key=lambda each: -lanes.depths.get(each[0], 0))
        some = owners[:_SEEN]
        if tenant is not None:
            some = [each for each in owners if each[1] == tenant]
            started = {tenant: started.get(tenant, 0)}
        tenants = {owner for _, owner, _ in some} | started.keys()
        ahead = {
            each: tag - tags.virtual for each in tenants if (tag := tags.tag(each)) is not None
        }
        weights = {each: tags.weight(each) for each in tenants}
        known = [number for number, *_ in owners]
        return Seen(known=known, lanes=some, started=started, weights=weights, ahead=ahead)

    # Consumed, and no more ------------------------------------------------------------

    def open(self) -> None:
        self._watch.start(self.reports.wake_up.soon)
        super().open()

    def cancel(self) -> None:
        self._watch.stop()
        super().cancel()

    def die(self) -> None:
        self._watch.stop(wait=False)  # the broker may be away, and a reconnect must not wait
        self._head = None
        for pick in filter(None, self._picked):
            self._choice.give_up(pick)
        self._picked.clear()
        super().die()

    def hand_back(self) -> None:
        while self._picked:
            self._have_come()
        self._head = None
        self._choice.front_is(None, self._choice.front, monotonic())
        for item in self.buffer:
            self.charged(item, 0.0)
        super().hand_back()

    # Its turn ---------------------------------------------------------------------------

    def ask_at(self, started: int) -> float:
        """Return when to ask; at once if the watch has found something, or a key has room again."""
        choice = self._choice
        if self._may_ask and (self._watch.found or self._picked or choice.have_room):
            return 0.0
        return min(super().ask_at(started), choice.ask_at)

    @property
    def comes(self) -> bool:  # type: ignore[override]
        return super().comes or bool(self._picked and self._may_ask)

    def take(self, now: float, started: int) -> Any:
        item = super().take(now, started)
        turn = None if item is None else message_of(item).turn
        if turn is not None:
            self._started.add(turn.tenant, time())
        if item is not None and self._ahead is not None and self._may_ask:
            most = self._ahead.count(self.given, now) - 1  # that may be here, or on their way
            have = len(self._picked) + len(self.buffer)
            if self._head is None and not self._choice.front and have <= most // 2:
                self._ask(self._choice.more(most - have, self._usual()))
        return item

    def ended(self, message: Any) -> None:
        super().ended(message)
        if message.turn is not None and message.turn.has == "left":
            self._choice.ended(message.turn.tenant)

    def _return(self, item: Any) -> None:
        self.buffer.append(item)

    @property
    def startable(self) -> Any:
        """What was chosen, or has come due."""
        chosen = (item for item in self.buffer if item is not self._head and not _has_left(item))
        return next(chosen, None)

    def _get(self) -> int:
        while self._settled:
            turn, difference = self._settled.popleft()
            served = Served(turn.tenant, turn.part, float(turn.finish), float(turn.part_finish))
            self._choice.tags.settle(served, difference, unused=difference == -turn.charged)
        if self._shared is not None:
            self._shared.hear()
        for number in list(self._watch.found):
            self._choice.found(number, *self._watch.found.pop(number))
        free = self._leases.left(self.name)
        if free and not self._link.leave(free):
            self._leases.untold(self.name, free)
        self._choice.begin(monotonic())
        for message in [message_of(item) for item in self.buffer if _has_left(item)]:
            permit = self._choice.may(message.turn.tenant)
            if permit is not None:
                self._comes_by(message, message.turn._replace(has=permit.has, place=permit.place))
                break
        else:
            self._choose()
        left = self._choice.left
        self.withheld = left if self._choice.some_wait and self.startable is None else 0
        return left

    def _choose(self) -> None:
        """Bring the message whose turn it is into the buffer, if there is one."""
        choice, done = self._choice, False
        while not (self.dead or done):
            if self._picked:
                done = self._have_come()
                continue
            step = choice.step(self._usual(), monotonic())
            if isinstance(step, Take):
                picks = [step.pick]
                if self._ahead is not None and step.sure:
                    most = self._ahead.count(self.given, monotonic())
                    picks += choice.more(most - 1, self._usual())
                self._ask(picks)
            elif step is Front.GET:
                self._ask([None])
            elif step is Front.COUNT:
                choice.counted(self._depth())
            elif isinstance(step, Move):
                self._move(step)
            else:
                done = True
                if isinstance(step, Turn):
                    head, self._head = self._head, None  # it is in the buffer, and chosen by that
                    self._comes_by(head, step)

    # What is asked ----------------------------------------------------------------------

    def _ask(self, picks: Sequence[Pick | None]) -> None:
        """Ask for what was picked, and now and then how many messages the front has."""
        if not picks:
            return
        self._picked.extend(picks)
        names = [lane_name(self.name, pick.number) if pick else self.name for pick in picks]
        counted = self.name if picks[0] and self._choice.counts(monotonic()) else None
        try:
            self._questions.ask(counted, names)
        except ChannelError as exc:
            self._refused(exc)
        if self._ahead is not None and not self._will_look:
            self._will_look = True
            self._later(LONG, self._give_back_what_waits)

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
            self._choice.counted(counted)
        came = False
        while self._questions.answers and not self.dead:
            pick, raw = self._picked.popleft(), self._questions.answers.popleft()
            message, key, left = None, None, 0
            if raw is not None:
                message = self.channel.message_to_python(raw)
                key, left = whose(message), int(raw.delivery_info["message_count"])
                self._receive(message)
            if pick is None:
                self._head = message
                self._choice.front_is(key, left, monotonic())
                continue
            turn = self._choice.came(pick, key, left)
            if message is not None and turn is not None:
                message.belongs_to(self.name)
                came = self._comes_by(message, turn, pick.number) or came
        return came

    def _comes_by(self, message: Any, turn: Turn, number: int | None = None) -> bool:
        """A message has come by this turn, out of this lane; return whether it may start."""
        message.come_by(turn)
        if turn.has == "place":
            self._leases.take(self.name, message, elapsed())
        elif turn.has == "left" and number is not None:
            # Into a lane for what is to wait, or back, behind what is there. What the broker does
            # not take stays here, and starts when its key may.
            to = self._choice.place_for(turn.tenant, number)
            if self.dispositions.move(message, lane_name(self.name, to)) and not self.dead:
                self.buffer.remove(message)
                self._choice.put_back((turn.tenant, turn.part), number, to)
        return turn.has != "left"

    def _move(self, step: Move) -> None:
        """Move the front's first message to a lane of its key, out of the way."""
        number, head = step.number, self._head
        if number is None:
            number = self._watch.lane_for(self._choice.lanes.depths)
        moves = number is not None and self.dispositions.move(head, lane_name(self.name, number))
        is_moved = moves and not self.dead
        if is_moved:
            self.buffer.remove(head)
            self._head = None
        self._choice.moved(number if is_moved else None, monotonic())

    # What waits --------------------------------------------------------------------------

    def _give_back_what_waits(self) -> None:
        """Let other workers have what was to start soon, and has not."""
        while self._picked:
            self._have_come()
        chosen = [item for item in self.buffer if getattr(item, "turn", None)]  # a request has none
        ahead = [message for message in chosen if not _has_left(message)]
        self._give_back([each for each in ahead if each.arrived <= monotonic() - LONG])
        self._will_look = bool(ahead) and not self.dead
        if self._will_look:
            self._later(LONG, self._give_back_what_waits)


def _has_left(item: Any) -> bool:
    """Whether a message has come due, and is to ask once more whether it may start."""
    turn = message_of(item).turn
    return turn is not None and turn.has == "left"
