"""The bootstep that puts fair consumption in place of Celery's own."""

import logging
from time import monotonic
from typing import Any

from celery import bootsteps
from celery.signals import celeryd_init
from celery.worker.consumer.tasks import Tasks
from celery.worker.loops import synloop

from celery_fair.core.dwrr import DeficitRoundRobin
from celery_fair.core.window import RefillMeter, plan
from celery_fair.routing import declare_queues
from celery_fair.settings import Settings
from celery_fair.worker.consumer import FairQoS, FairTaskConsumer
from celery_fair.worker.cost import cost_of
from celery_fair.worker.dispatcher import Dispatcher
from celery_fair.worker.feed import Feed, PullFeed, PushFeed
from celery_fair.worker.in_flight import InFlight, ObservedPool
from celery_fair.worker.loop import Interruptible
from celery_fair.worker.reader import DrainingReader
from celery_fair.worker.shield import shielded
from celery_fair.worker.wakeup import HubWakeup, SyncWakeup

__all__ = ["FairConsumerStep"]

logger = logging.getLogger(__name__)

_ADAPT_EVERY = 0.1


class FairConsumerStep(bootsteps.StartStopStep):  # type: ignore[misc]
    """Consumes the worker's queues in proportion to their quanta.

    Add it to an app with ``app.steps["consumer"].add(FairConsumerStep)``. It starts after Celery's
    ``Tasks`` step and takes the place of its consumer.
    """

    label = "Fair consumer"
    requires = (Tasks,)

    def __init__(self, c: Any, **kwargs: Any) -> None:
        super().__init__(c, **kwargs)
        c.fair = FairWorker(c)

    def start(self, c: Any) -> None:
        """Take over from Celery's consumer, on a new connection."""
        c.fair.start()

    def stop(self, c: Any) -> None:
        """Stop consuming: for a shutdown, or because the connection is gone."""
        c.fair.stop()

    def shutdown(self, c: Any) -> None:
        """Leave nothing open."""
        c.fair.shutdown()

    def info(self, c: Any) -> dict[str, Any]:
        """For ``inspect stats``."""
        return {"fair": c.fair.info()}


class FairWorker:
    """The parts of a fair worker, wired. One a process; it outlives connections."""

    def __init__(self, c: Any) -> None:
        self.c = c
        self.settings = Settings.of(c.app)
        declare_queues(c.app, self.settings)
        self.in_flight = InFlight()
        c.pool = c.controller.pool = ObservedPool(c.pool, self.in_flight)
        self.meter = RefillMeter()
        self.dispatcher = Dispatcher(
            DeficitRoundRobin(),
            self.in_flight,
            self.meter,
            slots=lambda: c.pool.num_processes,
            to_pool=c.on_task_request,
            cost=cost_of(self.settings.cost),
        )
        c.on_task_request = self.dispatcher.on_request
        self.wakeup: HubWakeup | SyncWakeup = (
            HubWakeup(c.hub, self.dispatcher.run)
            if c.hub
            else SyncWakeup(c.timer, self.dispatcher.run)
        )
        if c.hub:
            self.dispatcher.on_news = self.wakeup.soon
        else:
            c.loop = self._synchronous_loop
        self.dispatcher.schedule = self.in_flight.on_freed = self.wakeup.soon
        self.dispatcher.schedule_at = self.wakeup.at
        self.dispatcher.after_turn = self._adapt
        self.dispatcher.on_full = self._grow_pool
        self._next_adapt = 0.0
        self._late_acks = False

    def start(self) -> None:
        c = self.c
        vanilla = c.task_consumer
        vanilla.cancel()
        self._late_acks = any(task.acks_late for task in c.app.tasks.values())
        self.in_flight.forget_unaccepted()
        c.qos_global = False
        c.qos = FairQoS(c.initial_prefetch_count, self.dispatcher.put_off)
        self.consumer = c.task_consumer = FairTaskConsumer(
            vanilla.channel,
            vanilla.queues,
            self._make_feed,
            on_open=self.dispatcher.attach,
            on_close=self.dispatcher.detach,
        )
        self.wakeup.register()
        if c.hub and c.connection.transport.driver_type == "amqp":
            connection = c.connection.connection
            c.hub.add_reader(connection.sock, DrainingReader(connection, c.hub))
        self.dispatcher.handler = shielded(lambda message: self.consumer.on_message(message))

    def stop(self) -> None:
        self.dispatcher.handler = None
        consumer = self.c.task_consumer
        if isinstance(consumer, FairTaskConsumer):
            if self.c.connection is None:
                consumer.abandon()
            else:
                consumer.cancel()

    def shutdown(self) -> None:
        self.stop()
        self.wakeup.close()

    def info(self) -> dict[str, Any]:
        return {
            feed.name: {"window": feed.window.size, "buffered": len(feed.buffer)}
            for feed in self.consumer.feeds
        }

    def _make_feed(self, queue: Any) -> Feed:
        c = self.c
        options = self.settings.queue(queue.name)
        flow = self.dispatcher.scheduler.add(queue.name, options.quantum)
        kwargs: dict[str, Any] = {
            "queue": queue,
            "channel": c.connection.channel(),
            "flow": flow,
            "window": options.prefetch or self._plan()[queue.name],
            "on_arrival": self.dispatcher.arrived,
            "accept": c.app.conf.accept_content,
            "in_flight_allowance": c.pool.num_processes if self._late_acks else 0,
        }
        if c.connection.transport.driver_type == "amqp":
            return PushFeed(**kwargs, meter=self.meter)
        return PullFeed(**kwargs)

    def _plan(self) -> dict[str, int]:
        """The window of every queue, by what is known now."""
        flows = {flow.key: flow for flow in self.dispatcher.scheduler}
        weights = {
            queue.name: self.settings.queue(queue.name).quantum for queue in self.consumer.queues
        } | {name: flow.quantum / flow.last_cost for name, flow in flows.items()}
        return plan(weights, self.meter.rate, self.meter.delay, self.c.initial_prefetch_count)

    def _adapt(self, now: float) -> None:
        if now < self._next_adapt:
            return
        self._next_adapt = now + _ADAPT_EVERY
        self.meter.interval(now)
        windows = self._plan()
        for feed in self.consumer.feeds:
            if self.settings.queue(feed.name).prefetch is None:
                feed.resize(windows[feed.name])

    def _grow_pool(self) -> None:
        autoscaler = getattr(self.c.controller, "autoscaler", None)
        if autoscaler is not None and autoscaler.processes < autoscaler.max_concurrency:
            with autoscaler.mutex:
                autoscaler.scale_up(1)

    def _synchronous_loop(self, obj: Any, connection: Any, *args: Any, **kwargs: Any) -> None:
        synloop(obj, Interruptible(connection, self.dispatcher), *args, **kwargs)



@celeryd_init.connect
def _before_queues_are_selected(instance: Any = None, **_: Any) -> None:
    """Make our queues known before the command line's ``-Q`` and ``-X`` are applied."""
    app = instance.app
    if FairConsumerStep in app.steps["consumer"]:
        declare_queues(app, Settings.of(app))
