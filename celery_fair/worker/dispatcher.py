"""The main loop: a slot is free, choose a queue, hand its message to Celery.

Nothing is chosen before a slot is free, and what has been chosen starts at once. A message that
Celery puts off instead (an ETA, a rate limit), drops (revoked, expired) or refuses (malformed)
takes no slot and costs its queue nothing; a request that comes due later waits at the head of its
queue's buffer for the queue's turn.
"""

import logging
import math
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any

from kombu.message import Message

from celery_fair.core.chooser import Chooser
from celery_fair.core.dwrr import Flow
from celery_fair.core.window import RefillMeter
from celery_fair.worker.delivery import message_of
from celery_fair.worker.feed import Feed
from celery_fair.worker.in_flight import InFlight
from celery_fair.worker.observed import Observed
from celery_fair.worker.runtimes import Runtimes
from celery_fair.worker.served import Served
from celery_fair.worker.source import Source

__all__ = ["Dispatcher"]

logger = logging.getLogger(__name__)

_TURN = 0.01
"""Seconds after which the event loop gets its turn: acks go out and deliveries come in there."""


class Dispatcher:
    """Runs whenever something may have changed: a delivery, a free slot, a wait that is over.

    Arguments:
        chooser: says which queue is next.
        slots: returns how many requests the pool takes at once, now.
        to_pool: takes a request that is to start; `depart` starts those that it has taken.
        cost: what a message costs.
        runtimes: if given, what has ended is settled by it.
        clock: the monotonic clock.
        schedule: asks for `run` to be called soon, from the thread that owns the channels.
        schedule_at: the same, at a time of the monotonic clock.
    """

    def __init__(
        self,
        chooser: Chooser,
        in_flight: InFlight,
        meter: RefillMeter,
        slots: Callable[[], int],
        to_pool: Callable[[Any], object],
        cost: Callable[[Any], float],
        runtimes: Runtimes | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.chooser = chooser
        self.meter = meter
        self._in_flight = in_flight
        self._slots = slots
        self._to_pool = to_pool
        self._cost = cost
        self._runtimes = runtimes
        self._clock = clock
        self.handler: Callable[[Any], object] | None = None
        self.schedule: Callable[[], object] = lambda: None
        self.on_news: Callable[[], object] = lambda: None
        self.schedule_at: Callable[[float], object] = lambda when: None
        self.depart: Callable[[], bool] = lambda: False
        self.after_turn: Callable[[float], object] = lambda now: None
        self.source: Source | None = None
        self.served = Served()
        self._watch: Observed | None = None
        self._feeds: dict[Flow, Feed] = {}
        self._asked: list[Feed] = []  # those that give a message only when asked
        self._news: deque[tuple[Feed, Any]] = deque()
        self._orphans: deque[Any] = deque()  # come due after their queue was cancelled
        self._offered: Any = None
        self._put_off = False
        self._running = threading.Lock()
        self.pending = False

    def watch(self, watch: Observed) -> None:
        """Tell this one from now on how long messages waited, and who was held back."""
        self._watch = watch
        self.chooser.watch(watch)

    def attach(self, feed: Feed) -> None:
        """Serve this feed from now on."""
        self._feeds[feed.flow] = feed
        if feed.asks:
            self._asked.append(feed)

    def detach(self, feed: Feed) -> None:
        """Serve it no more."""
        del self._feeds[feed.flow]
        if feed.asks:
            self._asked.remove(feed)
        self.chooser.remove(feed.flow, self._clock())

    def regate(self, queue: str) -> None:
        """A queue's gate was changed: look at it again."""
        for flow, feed in self._feeds.items():
            if feed.name == queue:
                self.chooser.regate(flow, self._clock())
        self.schedule()

    def why_held(self, feed: Feed, now: float) -> tuple[str | None, float]:
        """Return why a feed's gate is closed, if it is, and until when at the most."""
        return self.chooser.why(feed.flow, now)

    def arrived(self, feed: Feed, request: Any = None) -> None:
        """Something new is in the feed's buffer, or a request of its has come due."""
        self._news.append((feed, request))
        self.on_news()

    def run(self) -> None:
        """Start what can be started; then leave. Safe to call at any time, from any thread."""
        self.pending = True
        until = self._clock() + _TURN
        while self.pending and self._running.acquire(blocking=False):
            try:
                self.pending = False
                if self.source is not None:
                    self.source.flush()
                done = self._turn(until)
                self.depart()
                if self.source is not None:
                    self.source.flush()
                self.after_turn(self._clock())
                if not done:
                    self.schedule()
                    return
            finally:
                self._running.release()

    def freed(self) -> None:
        """A slot is free: the run that is under way looks again, or one is asked for."""
        self.pending = True
        if not self._running.locked():  # who leaves unlocks first, and then looks at `pending`
            self.schedule()

    def _turn(self, until: float) -> bool:
        """Dispatch until nothing can be started (True) or the time is up (False)."""
        slots = self._slots()
        while self.handler is not None and (source := self.source) is not None:
            if self._runtimes is not None:
                self._runtimes.settle(self.chooser, self.served, self._price_now)
            if self._news:
                self._take_in_news()
            # What departs in this process, without threads, has ended.
            if len(self._in_flight) >= slots and not self._has_departed(slots):
                break
            now = self._clock()
            if now >= until:
                return False
            if self._orphans:
                self._to_pool(self._orphans.popleft())
                continue
            source.look(now)
            if self._news:
                continue
            feed = self._choose(self._clock())  # the look may have taken long; fences go by it
            if feed is None:
                source.seek()
                if self._news:
                    continue
                break
            self._dispatch(feed)
        return True

    def _has_departed(self, slots: int) -> bool:
        """Start what is aboard; return whether that has left a slot free."""
        return self.depart() and len(self._in_flight) < slots

    def _take_in_news(self) -> None:
        news = self._news
        while news:
            feed, request = news.popleft()
            if feed.flow not in self._feeds:
                if request is not None and not feed.dead:
                    self._orphans.append(request)
            elif request is not None:
                feed.buffer.appendleft(request)
                self._offer(feed)
            elif feed.buffer and feed.flow.head is None:
                self._offer(feed)

    def _ask_again(self, now: float) -> float:
        """Let queues that were found empty take part again; return when to ask the next one."""
        soonest = math.inf
        for feed in self._asked:
            if feed.flow.head is None and not self.chooser.is_held(feed.flow):
                at = feed.ask_at(self._in_flight.boarded)
                if at <= now:
                    self.chooser.scheduler.offer(feed.flow, feed.flow.last_cost)
                else:
                    soonest = min(soonest, at)
        return soonest

    def _offer(self, feed: Feed) -> None:
        now = self._clock()
        if feed.flow.head is None:
            feed.filled = now
        self.chooser.offer(feed.flow, self._cost(feed.buffer[0]), feed.waits_since, now)

    def _price_now(self, flow: Flow) -> float | None:
        buffer = self._feeds[flow].buffer
        return self._cost(buffer[0]) if buffer else None

    def _choose(self, now: float) -> Feed | None:
        chooser = self.chooser
        deadline = chooser.scheduler.deadline
        if deadline is not None and deadline <= now:
            self._end_waits(now)
        chooser.advance(now)
        ask_at = self._ask_again(now) if self._asked else math.inf
        chosen = chooser.choose(now, self.meter.patience)
        if chosen is not None:
            return self._feeds[chosen]
        wake = min(chooser.wake_at, ask_at)
        if wake < math.inf:
            self.schedule_at(wake)
        return None

    def _end_waits(self, now: float) -> None:
        scheduler = self.chooser.scheduler
        for flow in scheduler.overdue(now):
            if self._feeds[flow].has_more():
                scheduler.extend(flow, self._clock() + self.meter.patience)
        for flow in scheduler.expire(now):
            self._feeds[flow].window.disappointed()

    def _dispatch(self, feed: Feed) -> None:
        now = self._clock()
        waited = 0.0 if self._watch is None else feed.waiting(now)
        if feed.asks:
            self.depart()  # nobody waits for an answer
        boarded = self._in_flight.boarded
        item = feed.take(now, boarded)
        if item is None:
            feed.gate.give_back(now)
            self._look_at_next(feed, 0.0)
            return
        if feed.asks:  # what was chosen was a guess
            self.chooser.scheduler.offer(feed.flow, self._cost(item))
        cost = feed.flow.head or 0.0
        message_of(item).cost = cost
        self._hand_over(feed, item)
        started = self._in_flight.boarded - boarded
        if started:
            self.meter.started(started)
            self.served.add(feed.name, 0.0 if self._runtimes else cost, self._clock())
            if self._watch is not None:
                self._watch.started(feed.name, waited)
        else:
            feed.gate.give_back(self._clock())
        self._look_at_next(feed, cost if started else 0.0)

    def _look_at_next(self, feed: Feed, cost: float) -> None:
        if not feed.buffer:
            feed.refill()
        head = feed.next_cost(self._cost)
        if head is None:
            if feed.emptied is None:
                feed.emptied = self._clock()
            feed.starved += feed.owed
        if self.chooser.ages:
            since = feed.waits_since if feed.buffer else None
            self.chooser.served(feed.flow, cost, head, feed.owed, since, self._clock())
        else:
            self.chooser.served(feed.flow, cost, head, feed.owed)

    def _hand_over(self, feed: Feed, item: Any) -> None:
        if not isinstance(item, Message):  # a request that had been put off
            self._to_pool(item)
            return
        self._offered, self._put_off = item, False
        try:
            assert self.handler is not None
            self.handler(item)
            if self._offered is not None and not item.acknowledged:
                feed.set_aside(item, eta=self._put_off)
        finally:
            self._offered = None

    def prefetch_raised(self) -> None:
        """Celery is about to keep the offered message in a timer; or else, the pool has grown."""
        if self._offered is None:
            self.schedule()
        else:
            self._put_off = True

    def on_request(self, request: Any) -> None:
        """Celery's last word on a request: start it now if it was just chosen, else in its turn."""
        message = request.message
        if message is self._offered:
            self._offered = None
            self._to_pool(request)
            return
        message.feed.came_due(message)
        self.arrived(message.feed, request)
        self.schedule()
