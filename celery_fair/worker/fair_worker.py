"""The parts of a fair worker, wired to Celery's consumer."""

import logging
from functools import partial
from typing import Any

from celery.signals import worker_shutting_down
from celery.worker.loops import synloop
from kombu.common import ignore_errors

from celery_fair.core.dwrr import DeficitRoundRobin
from celery_fair.core.window import RefillMeter
from celery_fair.routing import declare_queues
from celery_fair.settings import Settings
from celery_fair.worker.consumer import FairQoS, FairTaskConsumer
from celery_fair.worker.cost import cost_of
from celery_fair.worker.dispatcher import Dispatcher
from celery_fair.worker.feed import Feed
from celery_fair.worker.in_flight import InFlight, ObservedPool
from celery_fair.worker.loop import Interruptible
from celery_fair.worker.shield import shielded
from celery_fair.worker.sizing import Sizing
from celery_fair.worker.slots import Slots
from celery_fair.worker.source import Source, source_for
from celery_fair.worker.wakeup import BellWakeup, HubWakeup, SyncWakeup

__all__ = ["FairWorker"]

logger = logging.getLogger(__name__)


class FairWorker:
    """One a process; it outlives connections.

    Arguments:
        c: Celery's consumer. Its pool and its ``on_task_request`` are replaced at once, before
            Celery makes its strategies from them.
    """

    def __init__(self, c: Any) -> None:
        self.c = c
        self.settings = Settings.of(c.app)
        declare_queues(c.app, self.settings)
        self.scheduler = DeficitRoundRobin()
        self.meter = RefillMeter()
        self.sizing = Sizing(self.settings, self.scheduler, self.meter)
        self.in_flight = InFlight()
        c.pool = c.controller.pool = ObservedPool(c.pool, self.in_flight)
        slots = Slots(c.controller, self.in_flight, c.on_task_request)
        self.dispatcher = Dispatcher(
            self.scheduler,
            self.in_flight,
            self.meter,
            slots=slots.count,
            to_pool=slots.fill,
            cost=cost_of(self.settings.cost),
        )
        c.on_task_request = self.dispatcher.on_request
        self.wakeup = self._wire_wakeup()
        self.consumer: FairTaskConsumer | None = None
        self.source: Source | None = None
        self._late_acks = False

    def _wire_wakeup(self) -> HubWakeup | BellWakeup | SyncWakeup:
        c, dispatcher = self.c, self.dispatcher
        wakeup: HubWakeup | BellWakeup | SyncWakeup
        if c.hub:
            wakeup = HubWakeup(c.hub, dispatcher.run)
            dispatcher.on_news = wakeup.soon
        else:
            on_amqp = c.conninfo.transport.driver_type == "amqp"
            wakeup = BellWakeup(c.timer) if on_amqp else SyncWakeup(c.timer, dispatcher.run)
            c.loop = partial(self._synchronous_loop, wakeup)
        dispatcher.schedule = wakeup.later
        dispatcher.schedule_at = wakeup.at
        dispatcher.after_turn = self._after_turn
        # A greenlet that ends still occupies its slot, and would wait for itself in there.
        self.in_flight.on_freed = wakeup.later if c.pool.is_green else wakeup.soon
        # The signal that asks for it interrupts no wait.
        worker_shutting_down.connect(self._on_shutting_down)
        return wakeup

    def start(self) -> None:
        """Take over from Celery's consumer, on a new connection."""
        c = self.c
        vanilla = c.task_consumer
        vanilla.cancel()
        self._late_acks = any(task.acks_late for task in c.app.tasks.values())
        self.in_flight.forget_unaccepted()
        c.qos_global = False  # Celery's prefetch reduction after a reconnect does not apply
        c.qos = FairQoS(c.initial_prefetch_count, self.dispatcher.prefetch_raised)
        self.source = source_for(c.connection, c.hub, self.meter)
        self.consumer = c.task_consumer = FairTaskConsumer(
            vanilla.channel,
            vanilla.queues,
            self._make_feed,
            on_open=self.dispatcher.attach,
            on_close=self.dispatcher.detach,
        )
        self.wakeup.register()
        self.dispatcher.seek = self.source.seek
        self.dispatcher.handler = shielded(self._handle)

    def _handle(self, message: Any) -> None:
        # Celery's loop gives the consumer its handler only after this step has started.
        assert self.consumer is not None
        assert self.consumer.on_message is not None
        self.consumer.on_message(message)

    def stop(self) -> None:
        """Stop consuming: for a shutdown, or because the connection is gone."""
        self.dispatcher.handler = None
        if self.consumer is None:
            return
        if self.c.connection is None:
            self.consumer.abandon()
            self._close_source()
        else:
            self.consumer.cancel()
        self.consumer = None

    def shutdown(self) -> None:
        """Leave nothing open."""
        self.stop()
        self._close_source()
        self.wakeup.close()

    def _close_source(self) -> None:
        source, self.source = self.source, None
        if source is not None:
            self.dispatcher.seek = lambda: None
            ignore_errors(self.c.conninfo, source.close)

    def info(self) -> dict[str, Any]:
        """Each queue's window and what is buffered in it, for ``inspect stats``."""
        feeds = self.consumer.feeds if self.consumer else []
        return {
            feed.name: {
                "quantum": feed.flow.quantum,
                "window": feed.window.size,
                "buffered": len(feed.buffer),
                "starved": feed.starved,
            }
            for feed in feeds
        }

    def _make_feed(self, queue: Any) -> Feed:
        assert self.source is not None
        c = self.c
        feed = self.source.feed(
            queue=queue,
            flow=self.scheduler.add(queue.name, self.settings.queue(queue.name).quantum),
            window=self.sizing.first(queue.name, c.task_consumer.queues, c.initial_prefetch_count),
            on_arrival=self.dispatcher.arrived,
            accept=c.app.conf.accept_content,
            in_flight_allowance=c.pool.num_processes if self._late_acks else 0,
        )
        feed.on_lost = self._lost
        return feed

    def _lost(self, feed: Feed) -> None:
        logger.warning("Queue %s was deleted at the broker; declaring it again", feed.name)
        self.c.call_soon(self._reopen, feed)

    def _reopen(self, feed: Feed) -> None:
        if self.consumer is None or not self.consumer.consuming_from(feed.name):
            return
        try:
            feed.reopen()
        except self.c.channel_errors as exc:
            logger.error(  # noqa: TRY400 - the broker's answer says it all
                "Cannot declare queue %s again, consuming it no more: %s", feed.name, exc
            )
            self.consumer.drop(feed)

    def _on_shutting_down(self, **kwargs: Any) -> None:
        self.wakeup.soon()

    def _after_turn(self, now: float) -> None:
        if self.consumer is not None:
            self.sizing.adapt(self.consumer.feeds, now, self.c.initial_prefetch_count)

    def _synchronous_loop(
        self,
        wakeup: BellWakeup | SyncWakeup,
        obj: Any,
        connection: Any,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        try:
            synloop(obj, Interruptible(connection, self.dispatcher, wakeup), *args, **kwargs)
        finally:
            # Tasks that end while Celery puts the connection away run the dispatcher, too.
            self.dispatcher.handler = None
