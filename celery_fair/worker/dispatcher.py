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

from celery_fair.core.classes import Ageing, ClassScheduler
from celery_fair.core.dwrr import DeficitRoundRobin, Flow
from celery_fair.core.window import RefillMeter
from celery_fair.worker.delivery import message_of
from celery_fair.worker.feed import Feed
from celery_fair.worker.gate import Hold
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
        slots: returns how many requests the pool takes at once, now.
        to_pool: takes a request that is to start; `depart` starts those that it has taken.
        cost: what a message costs.
        runtimes: if given, what has ended is settled by it.
        schedule: asks for `run` to be called soon, from the thread that owns the channels.
        schedule_at: the same, at a time of the monotonic clock.
    """

    def __init__(
        self,
        scheduler: DeficitRoundRobin | ClassScheduler,
        in_flight: InFlight,
        meter: RefillMeter,
        slots: Callable[[], int],
        to_pool: Callable[[Any], object],
        cost: Callable[[Any], float],
        runtimes: Runtimes | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.meter = meter
        self._in_flight = in_flight
        self._slots = slots
        self._to_pool = to_pool
        self._cost = cost
        self._runtimes = runtimes
        self.handler: Callable[[Any], object] | None = None
        self.schedule: Callable[[], object] = lambda: None
        self.on_news: Callable[[], object] = lambda: None
        self.schedule_at: Callable[[float], object] = lambda when: None
        self.depart: Callable[[], bool] = lambda: False
        self.after_turn: Callable[[float], object] = lambda now: None
        self.source: Source | None = None
        self.ageing: Ageing | None = None
        self.served = Served()
        self.watch: Observed | None = None
        self._feeds: dict[Flow, Feed] = {}
        self._asked: list[Feed] = []  # those that give a message only when asked
        self._held: dict[Feed, Hold] = {}
        self._open_at = math.inf  # the earliest time at which a leash has a token again
        self._landed = 0
        self._news: deque[tuple[Feed, Any]] = deque()
        self._orphans: deque[Any] = deque()  # come due after their queue was cancelled
        self._offered: Any = None
        self._put_off = False
        self._running = threading.Lock()
        self.pending = False

    def attach(self, feed: Feed) -> None:
        """Serve this feed from now on."""
        self._feeds[feed.flow] = feed
        if feed.asks:
            self._asked.append(feed)
        if self.ageing is not None:
            self.ageing.add(feed.flow, feed.gate.options.level)

    def detach(self, feed: Feed) -> None:
        """Serve it no more."""
        del self._feeds[feed.flow]
        if feed.asks:
            self._asked.remove(feed)
        if self._held.pop(feed, None) is not None and self.watch is not None:
            self.watch.released(feed.name, monotonic())
        if self.ageing is not None:
            self.ageing.remove(feed.flow)
        self.scheduler.remove(feed.flow)

    def regate(self, queue: str) -> None:
        """A queue's gate was changed: look at it again."""
        for feed in [feed for feed in self._held if feed.name == queue]:
            self._let_go(feed)
        self.schedule()

    def why_held(self, feed: Feed, now: float) -> tuple[str | None, float]:
        """Return why a feed's gate is closed, if it is, and until when at the most."""
        hold = self._held.get(feed)
        if hold is None or hold.until <= now:  # a leash that has a token again; nobody has asked
            hold = feed.gate.look(self._in_flight.of(feed.name))
        return hold if hold is not None else (None, now)

    def arrived(self, feed: Feed, request: Any = None) -> None:
        """Something new is in the feed's buffer, or a request of its has come due."""
        self._news.append((feed, request))
        self.on_news()

    def run(self) -> None:
        """Start what can be started; then leave. Safe to call at any time, from any thread."""
        self.pending = True
        until = monotonic() + _TURN
        while self.pending and self._running.acquire(blocking=False):
            try:
                self.pending = False
                if self.source is not None:
                    self.source.flush()
                done = self._turn(until)
                self.depart()
                if self.source is not None:
                    self.source.flush()
                self.after_turn(monotonic())
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
                self._runtimes.settle(self._feeds, self.served)
            if self._news:
                self._take_in_news()
            # What departs in this process, without threads, has ended.
            if len(self._in_flight) >= slots and not self._has_departed(slots):
                break
            now = monotonic()
            if now >= until:
                return False
            if self._orphans:
                self._to_pool(self._orphans.popleft())
                continue
            source.look(now)
            if self._news:
                continue
            feed = self._choose(now)
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
            if feed.flow.head is None and feed not in self._held:
                at = feed.ask_at(self._in_flight.boarded)
                if at <= now:
                    self.scheduler.offer(feed.flow, feed.flow.last_cost)
                else:
                    soonest = min(soonest, at)
        return soonest

    def _offer(self, feed: Feed) -> None:
        now = monotonic()
        if feed.flow.head is None:
            feed.filled = now
        self.scheduler.offer(feed.flow, self._cost(feed.buffer[0]))
        if self.ageing is not None:
            self.ageing.heads(feed.flow, feed.waits_since, now)

    def _choose(self, now: float) -> Feed | None:
        scheduler = self.scheduler
        if scheduler.deadline is not None and scheduler.deadline <= now:
            self._end_waits(now)
        if self._held:
            self._open_gates(now)
        if self.ageing is not None:
            self.ageing.rise(now)
        ask_at = self._ask_again(now) if self._asked else math.inf
        while (chosen := scheduler.choose(now, self.meter.patience)) is not None:
            feed = self._feeds[chosen]
            hold = feed.gate.hold(now, self._in_flight.of(feed.name))
            if hold is None:
                return feed
            self._held[feed] = hold
            if self.watch is not None:
                self.watch.held(feed.name, hold.reason, now)
            self._open_at = min(self._open_at, hold.until)
            scheduler.hold(chosen)
        deadline = math.inf if scheduler.deadline is None else scheduler.deadline
        wake = min(self._open_at, ask_at, deadline)
        if wake < math.inf:
            self.schedule_at(wake)
        return None

    def _open_gates(self, now: float) -> None:
        """Let the queues take part again whose gates may be open by now."""
        if now < self._open_at and self._landed == self._in_flight.landed:
            return
        self._landed = self._in_flight.landed
        for feed, hold in list(self._held.items()):
            if hold.reason == "leash":
                is_open = hold.until <= now
            else:
                is_open = feed.gate.look(self._in_flight.of(feed.name)) is None
            if is_open:
                self._let_go(feed)
        self._open_at = min((hold.until for hold in self._held.values()), default=math.inf)

    def _let_go(self, feed: Feed) -> None:
        del self._held[feed]
        if self.watch is not None:
            self.watch.released(feed.name, monotonic())
        self.scheduler.release(feed.flow)

    def _end_waits(self, now: float) -> None:
        for flow in self.scheduler.overdue(now):
            if self._feeds[flow].has_more():
                self.scheduler.extend(flow, monotonic() + self.meter.patience)
        for flow in self.scheduler.expire(now):
            self._feeds[flow].window.disappointed()

    def _dispatch(self, feed: Feed) -> None:
        now = monotonic()
        waited = 0.0 if self.watch is None else feed.waiting(now)
        if feed.asks:
            self.depart()  # nobody waits for an answer
        boarded = self._in_flight.boarded
        item = feed.take(now, boarded)
        if item is None:
            feed.gate.give_back(now)
            self._look_at_next(feed, 0.0)
            return
        if feed.asks:  # what was chosen was a guess
            self.scheduler.offer(feed.flow, self._cost(item))
        cost = feed.flow.head or 0.0
        message_of(item).cost = cost
        self._hand_over(feed, item)
        started = self._in_flight.boarded - boarded
        if started:
            self.meter.started(started)
            self.served.add(feed.name, 0.0 if self._runtimes else cost, monotonic())
            if self.watch is not None:
                self.watch.started(feed.name, waited)
        else:
            feed.gate.give_back(monotonic())
        self._look_at_next(feed, cost if started else 0.0)

    def _look_at_next(self, feed: Feed, cost: float) -> None:
        if not feed.buffer:
            feed.refill()
        head = feed.next_cost(self._cost)
        if head is None:
            if feed.emptied is None:
                feed.emptied = monotonic()
            feed.starved += feed.owed
        self.scheduler.serve(feed.flow, cost, head, feed.owed)
        if self.ageing is not None:
            if feed.buffer:
                self.ageing.heads(feed.flow, feed.waits_since, monotonic())
            else:
                self.ageing.runs_empty(feed.flow)

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
