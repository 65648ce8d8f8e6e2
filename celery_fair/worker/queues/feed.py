"""One queue at the worker: its channel, its subscription, its window and its buffer.

A feed has a channel of its own, as far as the broker allows so many (see `channels`), so that its
window bounds this queue alone and a queue's trouble stays on its channel. All of its channel calls
are made by the thread that runs the dispatcher.

What tells an idle queue from a slow refill differs by broker, and so do the two kinds of feed. An
AMQP broker pushes into a window (`amqp`). Kombu's virtual transports emulate a broker by polling;
there the feed itself takes what the window allows, and a short answer is proof that the queue is
empty (`virtual`, `redis`); and one may be asked for each message (`pulled`).
"""

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kombu.serialization import prepare_accept_content

from celery_fair.core.dwrr import Flow
from celery_fair.core.gate import Gate
from celery_fair.core.parking import Parking
from celery_fair.core.window import Room, Window
from celery_fair.settings import QueueOptions
from celery_fair.worker import patches
from celery_fair.worker.letters import Dispositions
from celery_fair.worker.queues.delivery import delivery_class, message_of
from celery_fair.worker.queues.reports import Reports

if TYPE_CHECKING:
    from celery_fair.worker.queues.keyed.by_key import KeyedFeed


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

    reports: Reports
    dispositions: Dispositions
    recovery: Recovery
    parking: Parking


class Lull:
    """Whether something is here, and since when nothing was, for the event log.

    Attributes:
        ended_at: when something came while nothing was here, last, on the monotonic clock.
        goes_on: whether nothing has come since.
        starved: how often the queue was found empty here while its refill was on its way.
    """

    def __init__(self) -> None:
        self.ended_at = 0.0
        self.goes_on = True
        self.starved = 0
        self._began: float | None = None

    def end(self, now: float) -> None:
        """Something came while nothing was here."""
        self.ended_at, self.goes_on = now, False

    def begin(self, now: float, owed: bool) -> None:
        """Nothing was left here after a message was taken; more is on its way, or is not."""
        self.goes_on = True
        if self._began is None:
            self._began = now
        self.starved += owed

    def began(self) -> float | None:
        """Return when the queue was found empty first since the last call; None if it was not."""
        began, self._began = self._began, None
        return began


class Feed(ABC):
    """What all kinds have in common.

    Arguments:
        queue: kombu's.
        flow: the queue as the scheduler sees it.
        window: deliveries that are allowed, as it is planned.
        gate: what may keep the queue from starting what it has.
        accept: the content types that are decoded.
        late: returns how many deliveries late acknowledgements keep unsettled besides.

    Attributes:
        name: the queue's name.
        dispositions: sees to its messages that do not simply start.
        reports: told of what comes.
        buffer: what waits here, oldest first: deliveries, and requests that have come due.
        window: the deliveries allowed, held and owed.
        room: what the window is to be.
        aside: what Celery keeps.
        lull: whether nothing is here.
        unsettled: deliveries that are.
        dead: its channel is gone, and with it every delivery: none of them may start.
        asks: whether the queue is asked for each message (see `celery_fair.worker.queues.pulled`).
        comes: whether a message is sure to be there for the asking.
        may_be_asked: whether it could be asked for each, with nobody subscribed to it.
        empty_at: when it was asked and found empty last, on the monotonic clock; 0 if it never was.
            What has come since may have waited since then.
        pushes: whether the broker sends messages before slots are free, and more may be owed then.
        given: how many messages it has given for the asking.
        withheld: messages that it was not given when it asked last, for caps, leashes and pauses of
            their keys.
        by_key: what chooses by key, if the queue is shared so.
        retired: its queue is not consumed by it any more.
    """

    asks = comes = pushes = retired = dead = False
    may_be_asked = True
    empty_at = 0.0
    given = withheld = 0
    by_key: "KeyedFeed | None" = None
    _tag: str | None = None  # of the subscription whose messages the window counts
    has_own_channel = True  # whether the channel is its own

    def __init__(
        self,
        queue: Any,
        channel: Any,
        flow: Flow,
        window: int,
        gate: Gate[QueueOptions],
        ports: Ports,
        accept: Any = None,
        late: Callable[[], int] = lambda: 0,
    ) -> None:
        self.name: str = queue.name
        self.queue = queue(channel)
        self.channel = channel
        self.flow, self.gate, self.dispositions = flow, gate, ports.dispositions
        self.reports, self._recovery = ports.reports, ports.recovery
        self.buffer: deque[Any] = deque()
        self.unsettled = 0
        self.lull = Lull()
        self.room = Room(window, late, ports.parking)
        self.window = Window(window + late())
        self.aside = Aside(self)
        self._accept = prepare_accept_content(accept)
        self._message = delivery_class(channel.Message, self)
        if self.has_own_channel:
            patches.adopt(channel, self._message)

    @abstractmethod
    def open(self) -> None:
        """Subscribe."""

    @abstractmethod
    def cancel(self) -> None:
        """Unsubscribe; what was delivered stays."""

    def reopen(self) -> None:
        """The broker has deleted the queue: begin again."""
        self.open()

    def refill(self) -> None:
        """Take what can be had at once, if taking is up to the feed."""

    @property
    def startable(self) -> Any:
        """The message of the buffer that starts next; None if none may now."""
        return self.buffer[0] if self.buffer else None

    def next_cost(self, cost: Callable[[Any], float]) -> float | None:
        """Return what the next message costs, or None if there is none."""
        if (item := self.startable) is not None:
            return cost(item)
        return self.flow.last_cost if self.comes else None

    def take(self, now: float, started: int) -> Any:
        """Return the next message, or request that has come due; None if there is none after all.

        Arguments:
            started: how many messages the worker has ever started.
        """
        return self.buffer.popleft() if self.buffer else None  # what was chosen went back

    @property
    def owed(self) -> bool:
        """Whether more is known to be on its way."""
        return False

    def has_more(self) -> bool:
        """Whether what was owed, and has been waited for, is still certain to come."""
        return False

    def resize(self, window: int, exactly: bool = False, most: float = math.inf) -> bool:
        """Set the window, unless it is right, or about right and no larger than `most`.

        Returns whether it was changed.
        """
        room = self.room
        must = exactly or room.wanted > most
        change = room.wanted != window and (must or (not room.suits(window) and self._adapts()))
        if change:
            room.want(window)
        return self.refit(change)

    def refit(self, change: bool = False) -> bool:
        """Apply the window if that is to be, or what is put off does not fit into it."""
        waiting = len(self.buffer) if self.pushes else 0
        # An exclusive queue's keeps others from nothing, and a change would let them in.
        may_shrink = not self.gate.options.exclusive
        applies = change or self.room.misfits(self.window.size, waiting, may_shrink)
        if applies:
            self._apply_window()
        return applies

    def _adapts(self) -> bool:
        """Whether now is a time to change the window, if nobody insists on it."""
        return True

    @abstractmethod
    def _apply_window(self) -> None:
        """Tell the broker, or remember, how many deliveries may be unsettled from now on."""

    def hand_back(self) -> None:
        """Return every buffered delivery to the queue; what the broker does not take stays.

        A fenced queue is somebody else's from now on, and so is what Celery has put off of it.
        """
        self.buffer.extend(self.reports.withdraw(self))
        if self.dead:  # the broker has it back
            self.buffer.clear()
        messages = [message_of(item) for item in self.buffer]
        if self.gate.fenced:
            messages += self.aside.messages
        self.dispositions.give_back([message for message in messages if not message.acknowledged])
        left = [item for item in self.buffer if not message_of(item).acknowledged]
        self.buffer.clear()
        self.buffer.extend(left)

    def retire(self) -> None:
        """The queue is consumed no more; what runs of it may still be acknowledged."""
        self.retired = True
        if not self.unsettled:
            self._recovery.ended(self)

    def die(self) -> None:
        """The channel is gone, and with it every delivery: none of them may start."""
        if not self.dead:
            self.dead = True
            self.room.close()
        self.buffer.clear()
        self.aside.clear()

    def close(self) -> None:
        """Forget the buffer (the broker redelivers it) and close the channel."""
        self.buffer.clear()
        self.channel.close()

    def settled(self, message: Any) -> None:
        """One of the feed's deliveries was acknowledged, rejected or requeued.

        One that counted as set aside may have been revoked: its acknowledgement comes a turn of
        the event loop later than Celery's handler returns.
        """
        if message.aside:
            self.aside.take(message)
        self.unsettled -= 1
        if message.subscription == self._tag:
            self.window.settled(monotonic())
        if self.retired and not self.unsettled:
            self._recovery.ended(self)

    def _receive(self, message: Any, subscription: str | None = None) -> None:
        message.arrive(monotonic(), self._accept, subscription)
        self.buffer.append(message)
        self.unsettled += 1


class Aside:
    """What Celery keeps of a queue, unsettled, for an ETA or a rate limit; and what is stranded."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._messages: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def messages(self) -> list[Any]:
        """All of it."""
        return list(self._messages.values())

    def put(self, message: Any, eta: bool, other: str = "limit") -> None:
        """Celery keeps a message for its ETA or its rate limit, or it is put off for another thing.

        The window grows by ETAs, so that they do not block their queue.
        """
        message.put_aside("eta" if eta else other)
        self._messages[id(message)] = message
        if eta:
            self._park(message)
        else:
            self._feed.room.limit(1)

    def strand(self, message: Any) -> None:
        """A message can be moved to nowhere for now: what is behind it gets its place."""
        if message.aside != "stranded":
            self.take(message)
            message.put_aside("stranded")
            self._park(message)

    def due(self, message: Any, request: Any) -> None:
        """The request of a message that was set aside is back."""
        self.take(message)
        message.arrive(monotonic(), None, message.subscription)
        self._feed.reports.due(self._feed, request)

    def take(self, message: Any) -> None:
        """A message is not kept aside any more."""
        feed = self._feed
        if message.aside in {"limit", "later"}:
            feed.room.limit(-1)
            feed.reports.wake_up.later()  # there is room for one more, also if it has expired
        elif message.aside and not feed.dead:
            feed.room.unpark(message.subscription == feed._tag)
        message.put_aside("")
        self._messages.pop(id(message), None)

    def give_back_once(self) -> None:
        """For a clean stop: return what is put off, if it must not count as redelivered."""
        dispositions = self._feed.dispositions
        aside = [message for message in self.messages if not message.acknowledged]
        dispositions.give_back([message for message in aside if dispositions.starts_once(message)])

    def give_back(self, before: float) -> list[Any]:
        """Return to the queue what was delivered before a time, but what Celery limits or strands.

        Returns those messages; they come again. What the broker does not take stays put off.
        """
        late = [m for m in self.messages if m.aside in {"eta", "later"} and m.delivered < before]
        self._feed.dispositions.give_back([each for each in late if not each.acknowledged])
        return [message for message in late if message.acknowledged]

    def clear(self) -> None:
        """The channel is gone, and with it all of it."""
        self._messages.clear()

    def _park(self, message: Any) -> None:
        self._feed.room.park(message.subscription == self._feed._tag)
        self._feed.refit()
