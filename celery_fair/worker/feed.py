"""One queue at the worker: its channel, its subscription, its window and its buffer.

Every feed owns a channel of its own, so that its window bounds this queue alone and a queue's
trouble stays on its channel. All of a feed's channel calls are made by the thread that runs the
dispatcher.

What tells an idle queue from a slow refill differs by broker, and so do the two kinds of feed. An
AMQP broker pushes into a window (`amqp_feed`). Kombu's virtual transports emulate a broker by
polling; there the feed itself takes what the window allows, and a short answer is proof that
the queue is empty (`virtual_feed`).
"""

import logging
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any

from kombu.serialization import prepare_accept_content

from celery_fair.core.dwrr import Flow
from celery_fair.core.window import Window
from celery_fair.settings import QueueOptions
from celery_fair.worker.delivery import delivery_class, message_of
from celery_fair.worker.gate import Gate

__all__ = ["Feed"]

logger = logging.getLogger(__name__)

_GROW, _SHRINK = 1.25, 4
"""How many times too small or too large a window must be to be changed: a change has a price."""


class Feed(ABC):
    """What both kinds have in common.

    Attributes:
        name: the queue's name.
        flow: the queue as the scheduler sees it.
        buffer: what waits here, oldest first: deliveries, and requests whose ETA or rate limit has
            come due.
        window: the deliveries allowed, held and owed.
        parked: deliveries in Celery's timer, waiting for their ETA.
        filled: when something came while nothing was here, last.
        emptied: when nothing was left here after a message was taken, first since somebody has
            looked, who sets it to None. Both on the monotonic clock.
        starved: how often the queue was found empty here while its refill was on its way.
        dead: its channel is gone, and with it every delivery: none of them may start.
        on_lost: told when the broker has deleted the queue.
        on_refused: told, with the broker's answer, when the queue cannot be consumed (any more).
            The answer has closed the channel, and with it every delivery is gone.
        gate: what may keep the queue from starting what it has.
        starts_once: whether a message must not be started again once it counts as redelivered.
        give_back: returns a message that has not started to its queue.
        refuse: sees to what becomes of a message that no task is started for, for an error.
        on_worker_lost: told of a message whose task's process has died.
        on_garbage: told of what was in the queue and is no message, and why.
        asks: whether the queue is asked for each message (see `celery_fair.worker.pulled`).
    """

    asks = False

    def __init__(
        self,
        queue: Any,
        channel: Any,
        flow: Flow,
        window: int,
        on_arrival: Callable[["Feed"], object],
        accept: Any = None,
        in_flight_allowance: int = 0,
    ) -> None:
        self.name: str = queue.name
        self.queue = queue(channel)
        self.channel = channel
        self.flow = flow
        self.buffer: deque[Any] = deque()
        self.parked = 0
        self.dead = False
        self.filled = 0.0
        self.emptied: float | None = None
        self.starved = 0
        self._limited = 0
        self._aside: dict[int, Any] = {}
        self.starts_once: Callable[[Any], bool] = lambda message: False
        self.give_back: Callable[[Any], object] = lambda message: message.requeue()
        self.refuse: Callable[[Any, BaseException | None], object] = lambda message, exc: None
        self.on_worker_lost: Callable[[Any], object] = lambda message: None
        self.on_garbage: Callable[[bytes, Exception], object] = lambda raw, reason: None
        self.on_lost: Callable[[Feed], object] = lambda feed: None
        self.on_refused: Callable[[Feed, Exception], object] = lambda feed, answer: None
        self.gate = Gate(QueueOptions(flow.quantum), None)
        self._allowance = in_flight_allowance
        self._wanted = window
        self.window = Window(window + in_flight_allowance)
        self._on_arrival = on_arrival
        self._accept = prepare_accept_content(accept)
        self._adopt(channel)

    def _adopt(self, channel: Any) -> None:
        channel.Message = delivery_class(channel.Message, self)

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

    @property
    def owed(self) -> bool:
        """Whether more is known to be on its way."""
        return False

    def has_more(self) -> bool:
        """Whether what was owed, and has been waited for, is still certain to come."""
        return False

    @property
    def prefetch(self) -> int:
        """Unsettled deliveries allowed: the window, and what late acks and ETAs keep unsettled."""
        eta = 1 << (self.parked - 1).bit_length() if self.parked else 0
        return min(self._wanted + self._allowance + eta, 65535)

    def resize(self, window: int, exactly: bool = False, most: float = math.inf) -> None:
        """Set the window, unless it is right, or about right and no larger than `most`."""
        about_right = self._wanted * _GROW >= window and self._wanted < window * _SHRINK
        now = exactly or self._wanted > most
        if self._wanted != window and (now or (not about_right and self._adapts())):
            self._wanted = window
            self._apply_prefetch()

    def _adapts(self) -> bool:
        """Whether now is a time to change the window, if nobody insists on it."""
        return True

    @property
    def room(self) -> int:
        """How many more messages a feed that takes them itself may take now.

        What runs has left the window, as have ETAs; what a rate limit holds back has not.
        """
        return self._wanted - len(self.buffer) - self._limited

    def set_aside(self, message: Any, eta: bool) -> None:
        """Celery keeps a message for its ETA or its rate limit, unsettled.

        The window grows by ETAs, so that they do not block their queue.
        """
        message.aside = "eta" if eta else "limit"
        self._aside[id(message)] = message
        if eta:
            self.parked += 1
            if self.prefetch > self.window.size:
                self._apply_prefetch()
        else:
            self._limited += 1

    def came_due(self, message: Any) -> None:
        """A message that was set aside is back."""
        if message.aside == "eta":
            self.parked -= 1
        elif message.aside == "limit":
            self._limited -= 1
        message.aside = ""
        self._aside.pop(id(message), None)
        message.arrived = monotonic()

    def hand_back(self) -> None:
        """Return every buffered delivery to the queue."""
        while self.buffer:
            message = message_of(self.buffer.popleft())
            if not message.acknowledged:
                self.give_back(message)

    def hand_back_aside(self) -> None:
        """For a clean stop: return what Celery has put off, if it must not count as redelivered."""
        for message in list(self._aside.values()):
            if not message.acknowledged and self.starts_once(message):
                self.give_back(message)

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
            self.came_due(message)
        self.window.settled(monotonic())

    def reopen(self) -> None:
        """The broker has deleted the queue: begin again."""
        self.open()

    def _receive(self, message: Any) -> None:
        message.arrived = monotonic()
        if self._accept is not None:
            message.accept = self._accept
        self.buffer.append(message)

    @abstractmethod
    def _apply_prefetch(self) -> None:
        """Tell the broker, or remember, how many deliveries may be unsettled from now on."""
