"""The parts of a fair worker, wired to Celery's consumer."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from celery.exceptions import ImproperlyConfigured
from celery.signals import worker_shutting_down
from celery.worker.loops import synloop
from kombu.common import ignore_errors

from celery_fair.core.chooser import Chooser
from celery_fair.core.pricing import Pricing
from celery_fair.core.window import RefillMeter
from celery_fair.headers import TOKEN
from celery_fair.ledger import ledger_at
from celery_fair.routing.declared import declare_queues, select_levels
from celery_fair.routing.logical import priorities_back
from celery_fair.settings import QueueOptions, Settings
from celery_fair.tasks import NonRepeatableTask
from celery_fair.worker.boarding import Boarding
from celery_fair.worker.claims import Claims
from celery_fair.worker.consumer import FairQoS, FairTaskConsumer
from celery_fair.worker.cost import cost_of
from celery_fair.worker.dead_letters import DeadLetters
from celery_fair.worker.desk import Desk
from celery_fair.worker.dispatcher import Dispatcher
from celery_fair.worker.fast_requests import FastRequests
from celery_fair.worker.feed import Feed
from celery_fair.worker.gates import Gates
from celery_fair.worker.in_flight import InFlight, ObservedPool
from celery_fair.worker.lanes import Lanes
from celery_fair.worker.loop import Interruptible
from celery_fair.worker.lost_queues import LostQueues
from celery_fair.worker.mover import Mover, mover_for
from celery_fair.worker.once import Once
from celery_fair.worker.pulled import Pulled
from celery_fair.worker.recorder import recorder_for
from celery_fair.worker.refused import Refused
from celery_fair.worker.runtimes import Runtimes
from celery_fair.worker.shield import shielded
from celery_fair.worker.sizing import Sizing
from celery_fair.worker.slots import Slots, pool_size
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
        _refuse_exclusive(self.settings, c.conninfo.transport.driver_type)
        if c.conninfo.transport.driver_type == "amqp":
            self.settings = self.settings.fenced()
        declare_queues(c.app, self.settings)
        select_levels(c.app, self.settings)
        self.gates = Gates(self.settings, c.hostname)
        self.meter = RefillMeter()
        self.sizing = Sizing(self.gates.options, self.meter)
        self.desk = Desk(self)
        self.in_flight = InFlight()
        cost = self.settings.cost
        pricing = Pricing() if cost == "runtime" else None
        self.chooser = Chooser(
            self.in_flight, self.settings.policy == "strict", self.settings.max_wait, pricing
        )
        c.pool = c.controller.pool = ObservedPool(c.pool, self.in_flight)
        self.slots = slots = Slots(c.controller, self.in_flight, c.on_task_request)
        self.dead_letters = DeadLetters(c.hostname, lambda: self.mover, self._call_later)
        url = self.settings.ledger
        self.claims = Claims(None if url is None else ledger_at(url, self.settings.ledger_expiry))
        self.once = Once(
            c.app, lambda: self.source, lambda: self.mover, self.dead_letters, self.claims
        )
        self.boarding = Boarding(
            self.in_flight,
            slots,
            self.once,
            self.settings.ack_batch,
            source=lambda: self.source,
            handed_over=c.pool.handed_over,
        )
        self._mover: Mover | None = None
        self.runtimes = None if pricing is None else self._runtimes(pricing)
        self.dispatcher = Dispatcher(
            self.chooser,
            self.in_flight,
            self.meter,
            slots=slots.count,
            to_pool=self.boarding.take,
            cost=self.runtimes.price if self.runtimes else cost_of(cost),
            runtimes=self.runtimes,
        )
        self.dispatcher.depart = self.boarding.depart
        self.served = self.dispatcher.served
        c.on_task_request = self.dispatcher.on_request
        self.wakeup = self._wire_wakeup()
        self.consumer: FairTaskConsumer | None = None
        self.lost_queues = LostQueues(
            c, lambda: self.consumer, Refused(self._call_later, self._consume)
        )
        self.metrics = self._metrics()
        self.tokens: dict[str, int] = {}
        self.fast_requests: FastRequests | None = None
        self._late_acks = False
        self._priorities_back = priorities_back(self.settings, c.conninfo.transport.driver_type)
        self.recorder = recorder_for(self)
        if self.recorder is not None:
            self.in_flight.on_broken_off = self.recorder.broken_off
            self.boarding.recorder = self.recorder

    def _runtimes(self, pricing: Pricing) -> Runtimes:
        runtimes = Runtimes(pricing, self.settings.cost_key, self.settings.cost_model)
        self.in_flight.on_ended = runtimes.ended
        return runtimes

    def _metrics(self) -> Any:
        if self.settings.metrics is None:
            return None
        try:
            from celery_fair.worker.metrics import metrics_server
        except ImportError as exc:
            raise ImproperlyConfigured(
                f"fair_metrics = '{self.settings.metrics}' needs a package ({exc}):"
                " pip install celery-fair[prometheus]"
            ) from exc
        return metrics_server(self)

    def _wire_wakeup(self) -> HubWakeup | BellWakeup | SyncWakeup:
        c, dispatcher = self.c, self.dispatcher
        wakeup: HubWakeup | BellWakeup | SyncWakeup
        if c.hub:
            wakeup = HubWakeup(c.hub, dispatcher.run)
            dispatcher.on_news = wakeup.soon
            if not hasattr(c, "call_soon_ack"):  # before Celery 5.7 the loop is not woken for it
                c.call_soon = _ringing(c.call_soon, wakeup.soon)
        else:
            on_amqp = c.conninfo.transport.driver_type == "amqp"
            wakeup = BellWakeup(c.timer) if on_amqp else SyncWakeup(c.timer, dispatcher.run)
            c.loop = partial(self._synchronous_loop, wakeup)
        dispatcher.schedule = wakeup.later
        dispatcher.schedule_at = wakeup.at
        dispatcher.after_turn = self._after_turn
        if c.pool.is_green:  # one that ends still occupies its slot, and would wait for itself
            self.in_flight.on_freed = wakeup.later
        else:
            self.in_flight.on_freed = dispatcher.freed if c.hub else wakeup.soon
        if self.settings.fast_path:
            self.in_flight.on_freed = c.pool.take_short_way(self.in_flight.on_freed)
        # The signal that asks for it interrupts no wait.
        worker_shutting_down.connect(self._on_shutting_down)
        return wakeup

    def start(self) -> None:
        """Take over from Celery's consumer, on a new connection."""
        c = self.c
        vanilla = c.task_consumer
        vanilla.cancel()
        self.boarding.acks_first = (
            self.settings.fast_path and c.pool.body_can_be_buffer and not c.pool.is_green
        )
        self._late_acks = any(task.acks_late for task in c.app.tasks.values())
        self.in_flight.forget_dropped(c.pool)
        c.qos_global = False  # Celery's prefetch reduction after a reconnect does not apply
        c.qos = FairQoS(c.initial_prefetch_count, self.dispatcher.prefetch_raised)
        once = any(isinstance(task, NonRepeatableTask) for task in c.app.tasks.values())
        self.dispatcher.source = source_for(
            c.connection,
            c.hub,
            self.meter,
            self.wakeup.soon,
            self.wakeup.at if once else None,
            self.settings.pull_interval,
            self.settings.fast_path,
        )
        self._mover = mover_for(self.settings.dead_letters, c.connection, self.source.flush)
        c.on_decode_error = _undecodable
        self.consumer = c.task_consumer = FairTaskConsumer(
            vanilla.channel,
            vanilla.queues,
            self._make_feed,
            on_open=self.dispatcher.attach,
            on_close=self.dispatcher.detach,
            levels_of=self._levels_of,
            deselect=c.app.amqp.queues.deselect,
        )
        self.claims.open()
        self.wakeup.register()
        if self.settings.fast_path:
            self.fast_requests = FastRequests(c)
        self.dispatcher.handler = shielded(self._handle)
        if self.metrics is not None:
            self.metrics.start()
        if self.recorder is not None:
            self.recorder.start()

    def _levels_of(self, queue: Any) -> list[Any]:
        logical = self.settings.logical_queues.get(getattr(queue, "name", queue))
        if logical is None or logical.native:
            return [queue]
        return [self.c.app.amqp.queues[level] for level in logical.levels.queues]

    def _handle(self, message: Any) -> None:
        back = self._priorities_back.get(message.feed.name)
        if back is not None:
            message.properties["priority"] = back(message.properties.get("priority") or 0)
        token = self.tokens.get(message.feed.name)
        if token is not None:
            message.headers[TOKEN] = token
            # However it came into the partition, a retry or a replay is to come there again.
            message.delivery_info |= {"exchange": "", "routing_key": message.feed.name}
        request = self.fast_requests and self.fast_requests.request(message)
        if request is not None:
            self.dispatcher.on_request(request)
            return
        # Celery's loop gives the consumer its handler only after this step has started.
        assert self.consumer is not None
        assert self.consumer.on_message is not None
        self.consumer.on_message(message)

    def stop(self) -> None:
        """Stop consuming: for a shutdown, or because the connection is gone."""
        self.dispatcher.handler = None
        if self.consumer is None:
            return
        self.c.pool.settle()
        if self.recorder is not None:
            self.recorder.stop()
        if not self._given_back(self.consumer):
            self.consumer.abandon()
            self._close_source()
        self.consumer = None
        select_levels(self.c.app, self.settings)  # for what add_consumer has added

    def _given_back(self, consumer: FairTaskConsumer) -> bool:
        connection = self.c.connection
        if connection is None or not connection.connected:
            return False
        try:
            self.source.last()
            consumer.cancel()
        except self.c.connection_errors as exc:
            logger.warning("Lost the broker while giving back what was not started: %s", exc)
            return False
        return True

    def shutdown(self) -> None:
        """Leave nothing open."""
        self.stop()
        self._close_source()
        self.claims.close()
        self.wakeup.close()
        if self.metrics is not None:
            self.metrics.close()
        if self.recorder is not None:
            self.recorder.queues.close()

    def _close_source(self) -> None:
        source, self.dispatcher.source = self.dispatcher.source, None
        mover, self._mover = self._mover, None
        for open_ in (source, mover):
            if open_ is not None:
                ignore_errors(self.c.conninfo, open_.close)

    def info(self) -> dict[str, Any]:
        """Each queue's window and what is buffered in it, for ``inspect stats``."""
        return {
            feed.name: {
                "quantum": feed.gate.options.quantum,
                "window": feed.window.size,
                "buffered": len(feed.buffer),
                "starved": feed.starved,
            }
            for feed in self.feeds
        }

    @property
    def source(self) -> Source:
        """The present connection's; only while there is one."""
        assert self.dispatcher.source is not None
        return self.dispatcher.source

    @property
    def mover(self) -> Mover:
        """The present connection's; only while there is one."""
        assert self._mover is not None
        return self._mover

    @property
    def feeds(self) -> list[Feed]:
        """The queues consumed from now."""
        return self.consumer.feeds if self.consumer else []

    def reconfigure(self, feed: Feed, options: QueueOptions) -> None:
        """Give a queue other options, from now on and on every later connection."""
        if options.quantum != feed.gate.options.quantum:
            self.chooser.reweight(feed.flow, options.quantum)
        self.gates.change(feed.name, options)
        self.dispatcher.regate(feed.name)
        self.c.call_soon(self.sizing.at_once)

    def _make_feed(self, queue: Any) -> Feed:
        c, gate, source = self.c, self.gates.of(queue.name), self.source
        make: Callable[..., Feed] = source.feed
        if gate.options.fetch == "pull":
            eager = self.settings.policy == "strict"
            make = partial(source.pulled, interval=self.settings.pull_interval, eager=eager)
        feed = make(
            queue=queue,
            flow=self.chooser.add(queue.name, gate.options.quantum, gate.options.level, gate),
            window=self.sizing.first(queue.name, c.task_consumer.queues, c.initial_prefetch_count),
            on_arrival=self.dispatcher.arrived,
            accept=c.app.conf.accept_content,
            in_flight_allowance=pool_size(c.pool) if self._late_acks else 0,
        )
        feed.gate = gate
        if isinstance(feed, Pulled) and queue.name in self.settings.by_key:
            feed.lanes = Lanes(partial(self.in_flight.runs, queue.name))
        feed.starts_once = self.once.starts_once
        feed.give_back = self._give_back
        feed.refuse = self.once.refuse
        feed.on_worker_lost = self.once.lost
        feed.on_garbage = partial(self._garbage, feed)
        feed.on_lost = self.lost_queues.lost
        feed.on_refused = self.lost_queues.refused
        return feed

    def _give_back(self, message: Any) -> None:
        if self.mover.in_place or self.once.starts_once(message):
            self.mover.give_back(message, {})
        else:
            message.requeue()

    def _garbage(self, feed: Feed, raw: bytes, reason: Exception) -> None:
        headers = self.dead_letters.bury_raw(feed.channel, feed.name, raw, repr(reason))
        if self.recorder is not None:
            self.recorder.garbage(headers)

    def _consume(self) -> set[str]:
        if self.consumer is not None:
            self.consumer.consume()
        return {feed.name for feed in self.feeds}

    def _call_later(self, seconds: float, call: Callable[[], object]) -> None:
        # What the event loop's timer calls soon waits for the loop's next event; it may be called
        # from there. Other timers have a thread or greenlet of their own.
        self.c.timer.call_after(seconds, call if self.c.hub else partial(self.c.call_soon, call))

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
        synloop(obj, Interruptible(connection, self.dispatcher, wakeup), *args, **kwargs)


def _ringing(call_soon: Callable[..., Any], ring: Callable[[], object]) -> Callable[..., Any]:
    """Wake the loop for what other threads call in it, such as acknowledgements."""

    def ringing(*args: Any, **kwargs: Any) -> Any:
        called = call_soon(*args, **kwargs)
        ring()
        return called

    return ringing


def _undecodable(message: Any, exc: Exception) -> NoReturn:  # noqa: ARG001
    """Celery would acknowledge it, which deletes it; the handler's caller refuses it instead."""
    raise exc


def _refuse_exclusive(settings: Settings, driver: str) -> None:
    for name, options in settings.queues.items():
        if options.exclusive and driver != "amqp":
            raise ImproperlyConfigured(
                f"fair_queues[{name!r}]['exclusive']: this broker ({driver}) cannot keep other"
                " workers from a queue; RabbitMQ can. Leave 'exclusive' out"
            )
