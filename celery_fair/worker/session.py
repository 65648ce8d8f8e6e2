"""What lives as long as a connection to the broker; see `celery_fair.worker`."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Any

from kombu.common import ignore_errors

from celery_fair.brokers.broker import AmqpBroker, broker_of
from celery_fair.brokers.mover import Mover
from celery_fair.core.dwrr import Flow
from celery_fair.core.gate import Gate
from celery_fair.core.parking import Parking
from celery_fair.routing.logical import priorities_back
from celery_fair.settings import QueueOptions
from celery_fair.worker import patches
from celery_fair.worker.amqp_io.silence import SilenceWatch
from celery_fair.worker.dispatch.dispatcher import Choice, Dispatcher
from celery_fair.worker.launch.admission import Admission
from celery_fair.worker.launch.launcher import Launcher
from celery_fair.worker.launch.requests import Requests
from celery_fair.worker.letters import DeadLetters, Dispositions
from celery_fair.worker.process import Parts
from celery_fair.worker.queues.consumer import FairQoS, FairTaskConsumer
from celery_fair.worker.queues.feed import Feed, Ports, Recovery
from celery_fair.worker.queues.held import Held, longest_wait
from celery_fair.worker.queues.lost_queues import LostQueues
from celery_fair.worker.queues.reports import Reports
from celery_fair.worker.queues.sources import source_for

logger = logging.getLogger(__name__)

_PULL_INTERVAL = 0.05
"""Seconds between two questions to a queue that is pulled from and was empty, at the most.

So long may a message wait for an idle worker: a person does not notice, and asking takes next to
nothing of a processor.
"""

_SOON = 0.1
"""Seconds until windows are looked at when what was put off has gone."""


class Session:
    """Consumes on one connection, from its beginning to its end.

    Arguments:
        parts: what outlives it.
        c: Celery's consumer, on a new connection; its ``task_consumer`` is replaced.
        declared: told the name of each queue that was declared again.
    """

    def __init__(
        self, parts: Parts, c: Any, declared: Sequence[Callable[[str], object]] = ()
    ) -> None:
        self._parts = parts
        self._c = c
        settings, pool = parts.settings, parts.pool
        tasks = list(c.app.tasks.values())
        vanilla = c.task_consumer
        vanilla.cancel()
        parts.in_flight.forget_dropped(pool)
        parts.claims.open()

        self._source = source_for(
            c.connection,
            c.hub,
            parts.meter,
            parts.wake_up,
            _PULL_INTERVAL,
            parts.path.read,
        )
        self._mover = self._another_mover(self._source.flush)
        self._dead_letters = dead_letters = DeadLetters(c.hostname, self._mover, self._call_later)
        self._reports = Reports(parts.wake_up)
        self._parking = Parking(c.app.conf.get("worker_eta_task_limit"), self._look_at_windows)
        self._will_look = False
        self._dispositions = Dispositions(c.app.tasks, self._mover, dead_letters)
        self._late_acks = any(task.acks_late for task in tasks)
        self._accept = c.app.conf.accept_content
        self._queues = vanilla.queues
        self.consumer = FairTaskConsumer(
            vanilla.channel,
            vanilla.queues,
            self._make_feed,
            lambda consumed: LostQueues(c, consumed, self._call_later, declared),
            parts.feeds,
            levels_of=self._levels_of,
            deselect=c.app.amqp.queues.deselect,
            connection_errors=c.connection_errors,
        )
        self._held = Held(
            self.consumer,
            longest_wait(vanilla.channel, vanilla.queues),
            self._call_later,
            partial(patches.forget_timed, c.timer),
            c.connection_errors,
        )
        if isinstance(broker_of(c.connection), AmqpBroker):
            SilenceWatch(vanilla.channel, self._call_if_consuming, raises=bool(c.hub))
        patches.maintain_quietly(pool, parts.wake_up.held)
        patches.replace_consumer(
            c, self.consumer, FairQoS(c.initial_prefetch_count, parts.handover.prefetch_raised)
        )
        requests = Requests(
            self.consumer,
            parts.path.requests(c),
            parts.tokens,
            priorities_back(settings, c.conninfo),
            parts.handover,
        )
        self._launcher = Launcher(
            parts.slots,
            requests,
            Admission(
                self._source,
                self._mover,
                dead_letters,
                parts.claims,
                [each.admitted for each in parts.recorders if settings.event_log_required],
                self._call_later,
            ),
            self._source,
            settings.ack_batch,
            pool.handed_over,
            acks_first=pool.body_can_be_buffer and not pool.is_green,
            noted=[
                each.note for each in (*parts.recorders, *(parts.observed if settings.keys else ()))
            ],
        )
        self._source.before_asking(self._launcher.launch)
        waited = [each.started for each in parts.observed]
        choice = Choice(parts.chooser, parts.feeds, parts.prices, parts.meter, parts.served, waited)
        self._dispatcher = Dispatcher(
            choice, self._reports, self._source, self._launcher, self._after_turn
        )
        if not pool.is_solo:  # there tasks run within a turn
            parts.wake_up.handlers.take()
        parts.wake_up.listen(lambda until: self.consumer.is_over or self._dispatcher.run(until))

    def _levels_of(self, queue: Any) -> list[Any]:
        logical = self._parts.settings.logical_queues.get(getattr(queue, "name", queue))
        if logical is None or logical.native:
            return [queue]
        return [self._c.app.amqp.queues[level] for level in logical.levels.queues]

    def _make_feed(self, queue: Any, recovery: Recovery) -> Feed:
        chooser, gate = self._parts.chooser, self._parts.gates.of(queue.name)
        flow = chooser.add(queue.name, gate.options.quantum, gate.options.level, gate)
        try:
            return self._feed_of(queue, flow, gate, recovery)
        except Exception:  # no channel, as the connection was lost just now; re-raised
            chooser.remove(flow, monotonic())
            raise

    def _feed_of(
        self, queue: Any, flow: Flow, gate: Gate[QueueOptions], recovery: Recovery
    ) -> Feed:
        parts, c = self._parts, self._c
        options = {
            "queue": queue,
            "flow": flow,
            "window": parts.sizing.first(
                queue.name, c.task_consumer.queues, c.initial_prefetch_count
            ),
            "gate": gate,
            "ports": Ports(self._reports, self._dispositions, recovery, self._parking),
            "accept": self._accept,
            "late": parts.slots.count if self._late_acks else lambda: 0,
        }
        pulled = {
            "interval": _PULL_INTERVAL,
            "eager": parts.settings.policy == "strict",
        }
        if queue.name in parts.keys:
            usual = partial(parts.prices.usual, flow)
            keyed = parts.keys.parts(queue.name, usual, self._free_slots, self._call_later)
            return self._source.keyed(
                parts=keyed, sorter=self._another_mover(), **pulled, **options
            )
        if gate.options.fetch != "pull" and queue.name not in self._held.asked:
            return self._source.feed(**options)
        by_key = queue.name in parts.settings.by_key
        return self._source.pulled(
            runs=partial(parts.in_flight.runs, queue.name) if by_key else None,
            **pulled,
            **options,
        )

    def _another_mover(self, flush: Callable[[], object] = lambda: None) -> Mover:
        connection = self._c.connection
        return broker_of(connection).mover(self._parts.settings.dead_letters, connection, flush)

    def _free_slots(self) -> int:
        return self._parts.slots.count() - len(self._parts.in_flight)

    def _after_turn(self, now: float) -> None:
        parts = self._parts
        if not parts.sizing.adapt(parts.feeds, now, self._c.initial_prefetch_count):
            parts.wake_up.later()
        parts.after_turn(now)

    def _look_at_windows(self) -> None:
        """Soon, not for each message that comes due."""
        if not self._will_look:
            self._will_look = True
            self._call_later(_SOON, self._look)

    def _look(self) -> None:
        self._will_look = False
        self._parts.sizing.at_once()
        self._parts.wake_up.soon()

    def _call_later(self, seconds: float, call: Callable[[], object]) -> None:
        # What the event loop's timer calls soon waits for the loop's next event; it may be called
        # from there. Other timers have a thread or greenlet of their own.
        c = self._c
        c.timer.call_after(seconds, call if c.hub else partial(c.call_soon, call))

    def _call_if_consuming(self, seconds: float, call: Callable[[], object]) -> None:
        self._call_later(seconds, lambda: self.consumer.is_over or call())

    def end(self) -> None:
        """Stop consuming: for a shutdown, or because the connection is gone."""
        self._dispatcher.close()
        self._parts.wake_up.leave()
        if self._is_connected:
            self._parts.wake_up.settle()  # what is amid its acknowledgement starts, or goes back
        self._launcher.abandon()
        self._parts.pool.settle()
        if not self._given_back():
            self.consumer.abandon()
            self.close()

    @property
    def _is_connected(self) -> bool:
        connection = self._c.connection
        return connection is not None and bool(connection.connected)

    def _given_back(self) -> bool:
        if not self._is_connected:
            return False
        try:
            self._source.last()
            self._mover.last()
            self.consumer.cancel()
        except self._c.connection_errors as exc:
            logger.warning("Lost the broker while giving back what was not started: %s", exc)
            return False
        return True

    def close(self) -> None:
        """Leave nothing open; what still runs can be acknowledged no more."""
        self.consumer.abandon()
        self._dead_letters.close()
        for open_ in (self._source, self._mover):
            ignore_errors(self._c.conninfo, open_.close)
