"""The main loop: a slot is free, choose a queue, hand its message to Celery.

Nothing is chosen before a slot is free, and what has been chosen starts at once. A message that
Celery puts off instead (an ETA, a rate limit), drops (revoked, expired) or refuses (malformed)
takes no slot and costs its queue nothing; a request that comes due later waits at the head of its
queue's buffer for the queue's turn.

A process that has ended its task waits until the next one is chosen and here. So while all slots
are taken what any choice would need is made ready: the broker is asked what has come, and of the
message at the head of a queue a request is made, ahead of the queue's turn.
"""

import math
from bisect import bisect
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, NamedTuple

from kombu.message import Message

from celery_fair.core.chooser import Chooser
from celery_fair.core.dwrr import Flow
from celery_fair.core.window import RefillMeter
from celery_fair.worker.dispatch.prices import Costs, Runtimes, Served
from celery_fair.worker.launch.launcher import Launcher
from celery_fair.worker.queues.delivery import message_of, published_since
from celery_fair.worker.queues.feed import Feed
from celery_fair.worker.queues.open_feeds import OpenFeeds
from celery_fair.worker.queues.reports import Reports
from celery_fair.worker.queues.source import Source


class Choice(NamedTuple):
    """What a choice goes by, and is counted in; it outlives connections.

    Attributes:
        chooser: says which queue is next.
        feeds: the queues that are consumed.
        prices: what messages cost.
        meter: told of starts.
        served: counts them.
        waited: told of each start, by queue, and how long after it came to the worker.
    """

    chooser: Chooser
    feeds: OpenFeeds
    prices: Costs | Runtimes
    meter: RefillMeter
    served: Served
    waited: Sequence[Callable[[str, float], object]] = ()


class Dispatcher:
    """Runs whenever something may have changed: a delivery, a free slot, a wait that is over.

    Arguments:
        choice: what is chosen by.
        reports: what queues report; their wake-up has `run` called.
        supply: the broker's connection.
        launcher: starts what was chosen.
        after_turn: called after each run, with the time.
        clock: the monotonic clock.
    """

    def __init__(
        self,
        choice: Choice,
        reports: Reports,
        supply: Source,
        launcher: Launcher,
        after_turn: Callable[[float], object] = lambda now: None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._chooser, self._feeds, self._prices, self._meter, self._served, self._waited = choice
        self._charges_ends = choice.prices.after
        self._aims = choice.chooser.urgency
        self._reports = reports
        self._supply = supply
        self._launcher = launcher
        self._in_flight = launcher.in_flight
        self._after_turn = after_turn
        self._clock = clock
        self._orphans: deque[Any] = deque()  # come due after their queue was cancelled
        self._unprepared: list[Feed] = []  # what is at their heads has come there in this run
        self._closed = False

    def close(self) -> None:
        """Start nothing more: the connection is gone, or the worker stops.

        What came due after its queue was cancelled, and got no slot, goes back with its queue.
        """
        self._closed = True
        while self._orphans:
            request = self._orphans.popleft()
            request.message.feed.buffer.append(request)

    def run(self, until: float = math.inf) -> bool:
        """Start what can be started; return whether that was all, or the time was up before."""
        if self._closed:
            return True
        self._unprepared.clear()
        done = self._turn(until)
        self._launcher.launch()
        self._supply.flush()
        self._after_turn(self._clock())
        full = len(self._in_flight) >= self._launcher.slots()
        if done and full and not self._reports.wake_up.hurried:
            self._prepare(until)
        return done

    def _prepare(self, until: float) -> None:
        self._supply.rest(self._clock())
        for feed in self._unprepared:
            if self._clock() >= until:
                break
            head = feed.startable if feed.by_key is None else None
            if isinstance(head, Message):
                self._launcher.prepare(head)

    def _turn(self, until: float) -> bool:
        launcher, in_flight, reports = self._launcher, self._in_flight, self._reports
        slots = launcher.slots()
        while not self._closed:
            if self._charges_ends:
                self._prices.settle(self._chooser, self._served, self._price_now)
            if reports:
                self._take_in_reports()
            # What is launched in this process, without threads, has ended.
            if len(in_flight) >= slots and not (launcher.launch() and len(in_flight) < slots):
                break
            now = self._clock()
            if now >= until:
                return False
            if self._orphans:
                launcher.take(self._orphans.popleft())
                continue
            self._supply.look(now)
            if reports:
                continue
            feed = self._choose(self._clock())  # the look may have taken long; fences go by it
            if feed is None:
                self._supply.seek()
                if reports:
                    continue
                break
            self._dispatch(feed)
        return True

    def _take_in_reports(self) -> None:
        for feed, request in self._reports.take():
            if request is not None and request.message.acknowledged:
                continue  # it was given back when it was about to come due, and comes again
            if feed not in self._feeds:
                if request is not None and not feed.dead:
                    # What is somebody else's queue by now goes back to it; see `queues.held`.
                    (feed.buffer if feed.gate.fenced else self._orphans).append(request)
            elif request is not None:
                # Before what has not started yet, and after what has come due before it.
                due = bisect(feed.buffer, False, key=lambda item: isinstance(item, Message))
                feed.buffer.insert(due, request)
                self._offer(feed)
            elif feed.buffer and feed.flow.head is None:
                self._offer(feed)

    def _ask_again(self, now: float) -> float:
        """Let queues that were found empty take part again; return when to ask the next one."""
        soonest = math.inf
        for feed in self._feeds.asked:
            if feed.flow.head is None and not feed.flow.is_held:
                at = feed.ask_at(self._in_flight.begun)
                if at <= now:
                    self._offer(feed)
                else:
                    soonest = min(soonest, at)
        return soonest

    def _offer(self, feed: Feed) -> None:
        now, head = self._clock(), feed.startable
        if head is None:
            if feed.flow.head is None:  # but it may be there for the asking
                self._chooser.offer(feed.flow, feed.flow.last_cost, feed.empty_at, now, False)
            return
        if feed.flow.head is None:
            feed.lull.end(now)
        self._unprepared.append(feed)
        counts = self._counts(head)
        since = self._waits_since(feed, head) if counts else now
        self._chooser.offer(feed.flow, self._prices.price(head), since, now, counts)

    def _price_now(self, flow: Flow) -> float | None:
        return self._feeds[flow].next_cost(self._prices.price)

    def _choose(self, now: float) -> Feed | None:
        chooser = self._chooser
        deadline = chooser.scheduler.deadline
        if deadline is not None and deadline <= now:
            self._end_waits(now)
        chooser.advance(now)
        ask_at = self._ask_again(now) if self._feeds.asked else math.inf
        chosen = chooser.choose(now, self._meter.patience)
        if chosen is not None:
            return self._feeds[chosen]
        wake = min(chooser.wake_at, ask_at)
        if wake < math.inf:
            self._reports.wake_up.at(wake)
        return None

    def _end_waits(self, now: float) -> None:
        scheduler = self._chooser.scheduler
        for flow in scheduler.overdue(now):
            feed = self._feeds.get(flow)  # asking one, we may hear that another's channel is closed
            if feed is not None and feed.has_more():
                scheduler.of(flow).extend(flow, self._clock() + self._meter.patience)
        for flow in scheduler.expire(now):
            self._feeds[flow].window.disappointed()

    def _dispatch(self, feed: Feed) -> None:
        now = self._clock()
        if feed.startable is None:
            self._launcher.launch()  # nobody waits for an answer
        item = feed.take(now, self._in_flight.begun)
        if item is not None and feed.gate.is_over(self._clock()):  # the broker took its time
            feed.buffer.appendleft(item)
            item = None
        if item is None:
            feed.gate.give_back(now)
            self._look_at_next(feed, 0.0)
            return
        since = None if self._aims is None else self._waits_since(feed, item)
        if feed.asks:  # what was chosen was a guess
            if feed.lull.goes_on:
                feed.lull.end(now)
            self._chooser.scheduler.of(feed.flow).offer(feed.flow, self._prices.price(item))
        cost = feed.flow.head or 0.0
        if self._hand_over(item, cost):
            self._meter.started(1)
            self._served.add(feed.name, 0.0 if self._charges_ends else cost, self._clock())
            for told in self._waited:
                told(feed.name, max(0.0, now - message_of(item).arrived))
            if self._aims is not None and since is not None:
                now = self._clock()
                self._aims.started(feed.flow, max(0.0, now - since), now, self._counts(item))
        else:
            feed.gate.give_back(self._clock())
            cost = 0.0
        if feed.by_key is not None and not (cost and self._charges_ends):
            feed.by_key.charged(item, cost)
        self._look_at_next(feed, cost, since)

    def _waits_since(self, feed: Feed, item: Any) -> float:
        """Return since when a message counts as waiting: with a target, since it was published."""
        if self._aims is None or feed.gate.options.target is None:
            return float(message_of(item).arrived)
        since, is_known = published_since(item)
        self._aims.dated(feed.flow, is_known)
        return since

    @staticmethod
    def _counts(item: Any) -> bool:
        """Whether a target is for a message: by key it is for the first one of each."""
        turn = message_of(item).turn
        return turn is None or turn.begins

    def _hand_over(self, item: Any, cost: float) -> bool:
        """Launch a message, or a request that had been put off; return whether it starts."""
        message_of(item).charge(cost)
        request = self._launcher.offer(item) if isinstance(item, Message) else item
        return request is not None and self._launcher.take(request)

    def _look_at_next(self, feed: Feed, cost: float, since: float | None = None) -> None:
        """Say what is next of a queue of which so much was served.

        Arguments:
            since: when what was served was published. What a queue will give for the asking was
                published no earlier, and if it is shared by key may have just been.
        """
        if not feed.buffer:
            feed.refill()
        self._unprepared.append(feed)
        head, item = feed.next_cost(self._prices.price), feed.startable
        counts = item is not None and self._counts(item)
        now = self._clock()
        if head is None:  # what is here may not start, as its key runs
            feed.lull.begin(now, feed.owed)
            since = None
        elif counts:
            since = self._waits_since(feed, item)
        elif since is None or feed.by_key is not None:
            since = now
        self._chooser.served(feed.flow, cost, head, feed.owed, since, now, counts)
