"""One queue at the worker: its channel, its subscription, its window and its buffer.

Every feed owns a channel of its own, as far as the broker allows so many (see `channels`), so that
its window bounds this queue alone and a queue's trouble stays on its channel. All of a feed's
channel calls are made by the thread that runs the dispatcher.

What tells an idle queue from a slow refill differs by broker, and so do the two kinds of feed. An
AMQP broker pushes into a window (`amqp_feed`). Kombu's virtual transports emulate a broker by
polling; there the feed itself takes what the window allows, and a short answer is proof that
the queue is empty (`virtual_feed`).
"""

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple, Protocol, TypedDict

from kombu.serialization import prepare_accept_content

from celery_fair.core.dwrr import Flow
from celery_fair.core.gate import Gate
from celery_fair.core.parking import Parking
from celery_fair.core.window import Window
from celery_fair.settings import QueueOptions
from celery_fair.worker import host
from celery_fair.worker.queues.delivery import delivery_class, message_of
from celery_fair.worker.queues.news import News

__all__ = ["ByKey", "Custody", "Feed", "Ports", "Recovery", "Seen"]

_GROW, _SHRINK = 1.25, 4
"""How many times too small or too large a window must be to be changed: a change has a price."""


class Seen(TypedDict):
    """What a worker knows of a queue's keys."""

    known: Sequence[int]
    """Numbers of lanes of which it is known whose message was in them last."""
    lanes: Sequence[tuple[int, str, str]]
    """Some of those, with the tenant and the part."""
    started: Mapping[str, int]
    """Messages by tenant, in this minute and the one before."""
    weights: Mapping[str, float]
    """Of tenants."""
    ahead: Mapping[str, float]
    """How far tenants' tags are ahead of where newcomers begin."""


class ByKey(Protocol):
    """What chooses by key whose message of a queue is next.

    Redis's scripts, lanes with tags of the worker's own, lanes with tags that workers share: see
    `celery_fair.worker.queues.keyed`.
    """

    def charged(self, item: Any, cost: float) -> None:
        """What was taken costs so much, as far as it is known; nothing if it did not start."""

    def ended(self, message: Any) -> None:
        """The task of a message has ended; any thread may say so."""

    def live_weights(self) -> Mapping[str, float]:
        """Return the weights that keys were given live."""

    def seen(self, tenant: str | None) -> Seen | None:
        """Return what this worker knows of the keys, if their broker does not know it.

        Arguments:
            tenant: of this one; None: of those that have most.
        """


class Custody(Protocol):
    """What becomes of messages that do not simply start."""

    def starts_once(self, message: Any) -> bool:
        """Whether a message must not be started again once it counts as redelivered."""

    def give_back(self, messages: Sequence[Any]) -> None:
        """Return messages of one queue that have not started to it, one after the other."""

    def move(self, message: Any, queue: str) -> bool:
        """Move a message that has not started to another queue; False if that is not taken now."""

    def refuse(self, message: Any, exc: BaseException | None) -> None:
        """See to what becomes of a message that no task is started for, for an error."""

    def worker_lost(self, message: Any) -> None:
        """The process that ran a message's task has died."""

    def garbage(self, feed: "Feed", raw: bytes, reason: Exception) -> None:
        """This was in the queue, and is no message."""


class Recovery(Protocol):
    """What becomes of a queue that the broker has taken away."""

    def lost(self, feed: "Feed") -> None:
        """The broker has deleted the queue."""

    def refused(self, feed: "Feed", answer: Exception) -> None:
        """The queue cannot be consumed (any more), says the broker's answer.

        It has closed the channel, and with it every delivery is gone.
        """

    def closed(self, feed: "Feed", reason: Exception) -> None:
        """The broker has closed the feed's channel of its own accord, for this reason."""

    def ended(self, feed: "Feed") -> None:
        """The feed's channel is of no use any more."""

    def given_up(self, name: str) -> None:
        """Nobody wants this queue consumed any more."""


class Ports(NamedTuple):
    """Whom a queue knows: given to it when it is made."""

    news: News
    custody: Custody
    recovery: Recovery
    parking: Parking


class Feed(ABC):
    """What both kinds have in common.

    Attributes:
        name: the queue's name.
        flow: the queue as the scheduler sees it.
        gate: what may keep the queue from starting what it has.
        custody: see `Custody`.
        buffer: what waits here, oldest first: deliveries, and requests whose ETA or rate limit has
            come due.
        window: the deliveries allowed, held and owed.
        parked: deliveries in Celery's timer, waiting for their ETA, and those that are stranded.
        filled: when something came while nothing was here, last, on the monotonic clock.
        is_dry: whether nothing has come since.
        starved: how often the queue was found empty here while its refill was on its way.
        dead: its channel is gone, and with it every delivery: none of them may start.
        asks: whether the queue is asked for each message (see `celery_fair.worker.queues.pulled`).
        may_be_asked: whether it could be.
        given: how many messages it has given for the asking.
        by_key: what chooses by key, if the queue is shared so.
        withheld: messages that it was not given when it asked last, for caps, leashes and pauses of
            their keys.
        retired: its queue is not consumed by it any more.
    """

    asks = retired = False
    may_be_asked = True
    given = withheld = 0
    by_key: ByKey | None = None

    def __init__(
        self,
        queue: Any,
        channel: Any,
        flow: Flow,
        window: int,
        gate: Gate[QueueOptions],
        ports: Ports,
        accept: Any = None,
        in_flight_allowance: int = 0,
    ) -> None:
        self.name: str = queue.name
        self.queue = queue(channel)
        self.channel = channel
        self.flow = flow
        self.gate = gate
        self.custody = ports.custody
        self._news = ports.news
        self._recovery = ports.recovery
        self._parking = ports.parking
        self.buffer: deque[Any] = deque()
        self.parked = 0
        self.dead = False
        self.filled = 0.0
        self.is_dry = True
        self._emptied: float | None = None
        self.starved = 0
        self._limited = 0
        self._aside: dict[int, Any] = {}
        self._allowance = in_flight_allowance
        self._wanted = window
        self.window = Window(window + in_flight_allowance)
        self._accept = prepare_accept_content(accept)
        self._adopt(channel)

    def _adopt(self, channel: Any) -> None:
        host.adopt(channel, delivery_class(channel.Message, self))

    @abstractmethod
    def open(self) -> None:
        """Subscribe."""

    @abstractmethod
    def cancel(self) -> None:
        """Unsubscribe; what was delivered stays."""

    def refill(self) -> None:
        """Take what can be had at once, if taking is up to the feed."""

    def ask_at(self, started: int) -> float:
        """Return when an empty queue is to be asked, if it is one to ask; see `take`."""
        return math.inf

    def next_cost(self, cost: Callable[[Any], float]) -> float | None:
        """Return what the next message costs, or None if there is none."""
        return cost(self.buffer[0]) if self.buffer else None

    def take(self, now: float, started: int) -> Any:
        """Return the next message, or request that has come due; None if there is none after all.

        Arguments:
            started: how many messages the worker has ever started.
        """
        return self.buffer.popleft()

    def report(self) -> None:
        """Say that there may be something here."""
        self._news.arrived(self)

    def is_filled(self, now: float) -> None:
        """Something came while nothing was here."""
        self.filled, self.is_dry = now, False

    def is_empty(self, now: float) -> None:
        """Nothing was left here after a message was taken."""
        self.is_dry = True
        if self._emptied is None:
            self._emptied = now
        self.starved += self.owed

    def was_empty(self) -> float | None:
        """Return when the queue was found empty first since the last call; None if it was not."""
        emptied, self._emptied = self._emptied, None
        return emptied

    def die(self) -> None:
        """The channel is gone, and with it every delivery: none of them may start."""
        if not self.dead:
            self.dead = True
            if self.parked:
                self._parking.leave(self.parked)
        self.buffer.clear()
        self._aside.clear()

    @property
    def must_ask(self) -> bool:
        """Whether `take` has to wait for the broker's answer."""
        return False

    @property
    def owed(self) -> bool:
        """Whether more is known to be on its way."""
        return False

    @property
    def ahead(self) -> int | None:
        """Messages that the broker may send before slots are free, where more may be owed then."""
        return None

    def has_more(self) -> bool:
        """Whether what was owed, and has been waited for, is still certain to come."""
        return False

    @property
    def prefetch(self) -> int:
        """Unsettled deliveries allowed: the window, and what late acks and ETAs keep unsettled."""
        return self._beside_parked + self.parked

    @property
    def _beside_parked(self) -> int:
        """Unsettled deliveries allowed besides what is parked.

        More than the window, so that it need not be changed for each message that is put off.
        """
        ahead = 1 << (self.parked - 1).bit_length() if self.parked else 0
        return int(min(self._ordinary + ahead, self._places - self.parked))

    @property
    def _counted(self) -> int:
        """How much of what is parked takes a place in the window, as the broker counts."""
        return self.parked

    @property
    def _ordinary(self) -> int:
        """Unsettled deliveries allowed if none is put off."""
        return self._wanted + self._allowance

    @property
    def _places(self) -> float:
        """Unsettled deliveries that there is room for at this worker."""
        return self._parking.places(self.parked, self._ordinary)

    def resize(self, window: int, exactly: bool = False, most: float = math.inf) -> bool:
        """Set the window, unless it is right, or about right and no larger than `most`.

        Returns whether it was changed.
        """
        about_right = self._wanted * _GROW >= window and self._wanted < window * _SHRINK
        now = exactly or self._wanted > most
        change = self._wanted != window and (now or (not about_right and self._adapts()))
        if change:
            self._wanted = window
        applies = change or self._misfits
        if applies:
            self._apply_prefetch()
        return applies

    @property
    def _misfits(self) -> bool:
        """Whether the window lacks room for what is put off, or has far too much since it has gone.

        An exclusive queue's keeps others from nothing, and a change would let them in.
        """
        places, wanted = self.window.size - self._counted, self._beside_parked
        too_large = 0 < _SHRINK * wanted <= places and not self.gate.options.exclusive
        return places < min(wanted, self._ordinary) or too_large

    def _adapts(self) -> bool:
        """Whether now is a time to change the window, if nobody insists on it."""
        return True

    @property
    def room(self) -> int:
        """How many more messages a feed that takes them itself may take now.

        What runs has left the window, as have ETAs; what a rate limit holds back has not.
        """
        places = min(self._wanted, self._places - self.parked)
        return int(places) - len(self.buffer) - self._limited

    def set_aside(self, message: Any, eta: bool) -> None:
        """Celery keeps a message for its ETA or its rate limit, unsettled.

        The window grows by ETAs, so that they do not block their queue.
        """
        message.put_aside("eta" if eta else "limit")
        self._aside[id(message)] = message
        if eta:
            self._park(message)
        else:
            self._limited += 1

    def strand(self, message: Any) -> None:
        """A message can be moved to nowhere for now: what is behind it gets its place."""
        if message.aside != "stranded":
            self._take_back(message)
            message.put_aside("stranded")
            self._park(message)

    def _park(self, message: Any) -> None:
        self.parked += 1
        self._parking.enter()
        if self._misfits:
            self._apply_prefetch()

    def _unpark(self, message: Any) -> None:
        if not self.dead:
            self.parked -= 1
            self._parking.leave()

    def came_due(self, message: Any, request: Any) -> None:
        """The request of a message that was set aside is back."""
        self._take_back(message)
        message.arrive(monotonic(), None, message.subscription)
        self._news.due(self, request)

    def _take_back(self, message: Any) -> None:
        if message.aside in {"eta", "stranded"}:
            self._unpark(message)
        elif message.aside == "limit":
            self._limited -= 1
        message.put_aside("")
        self._aside.pop(id(message), None)

    def hand_back(self) -> None:
        """Return every buffered delivery to the queue; what the broker does not take stays.

        A fenced queue is somebody else's from now on, and so is what Celery has put off of it.
        """
        self.buffer.extend(self._news.withdraw(self))
        if self.dead:  # the broker has it back
            self.buffer.clear()
        messages = [message_of(item) for item in self.buffer]
        if self.gate.fenced:
            messages += self._aside.values()
        self.custody.give_back([message for message in messages if not message.acknowledged])
        left = [item for item in self.buffer if not message_of(item).acknowledged]
        self.buffer.clear()
        self.buffer.extend(left)

    def hand_back_aside(self) -> None:
        """For a clean stop: return what Celery has put off, if it must not count as redelivered."""
        once = self.custody.starts_once
        aside = [message for message in self._aside.values() if not message.acknowledged]
        self.custody.give_back([message for message in aside if once(message)])

    def give_back_put_off(self, before: float) -> list[Any]:
        """Return to the queue what has come before a time, and Celery has put off for its ETA.

        Returns those messages; they come again. What the broker does not take stays put off.
        """
        overdue = [m for m in self._aside.values() if m.aside == "eta" and m.arrived < before]
        self.custody.give_back([message for message in overdue if not message.acknowledged])
        return [message for message in overdue if message.acknowledged]

    @property
    def holds(self) -> bool:
        """Whether anything that was delivered is unsettled."""
        return self.window.held > 0

    @property
    def leftover(self) -> bool:
        """Whether it has ended, and the broker has not taken back all that is to go back."""
        return self.retired and bool(self.buffer or (self.gate.fenced and self._aside))

    def retire(self) -> None:
        """The queue is consumed no more; what runs of it may still be acknowledged."""
        self.retired = True

    def close(self) -> None:
        """Forget the buffer (the broker redelivers it) and close the channel."""
        self.buffer.clear()
        self.channel.close()

    @property
    def waits_since(self) -> float:
        """When the oldest message in the buffer came here, on the monotonic clock."""
        return float(message_of(self.buffer[0]).arrived)

    def waiting(self, now: float) -> float:
        """Seconds that the oldest message in the buffer has waited here."""
        return now - self.waits_since if self.buffer else 0.0

    def settled(self, message: Any) -> None:
        """One of the feed's deliveries was acknowledged, rejected or requeued.

        One that counted as set aside may have been revoked: its acknowledgement comes a turn of
        the event loop later than Celery's handler returns.
        """
        if message.aside:
            self._take_back(message)
        self._count_settled(message)

    def _count_settled(self, message: Any) -> None:
        self.window.settled(monotonic())

    def reopen(self) -> None:
        """The broker has deleted the queue: begin again."""
        self.open()

    def _receive(self, message: Any, subscription: str | None = None) -> None:
        message.arrive(monotonic(), self._accept, subscription)
        self.buffer.append(message)

    @abstractmethod
    def _apply_prefetch(self) -> None:
        """Tell the broker, or remember, how many deliveries may be unsettled from now on."""
