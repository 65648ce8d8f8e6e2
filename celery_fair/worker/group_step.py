"""The bootstep that makes a worker a member of the groups of its partitioned queues."""

import logging
from functools import partial
from time import monotonic
from typing import Any
from uuid import uuid4

from celery import bootsteps
from celery.bootsteps import RUN  # type: ignore[attr-defined]
from celery.exceptions import ImproperlyConfigured

from celery_fair.brokers.broker import broker_of
from celery_fair.core.membership import Terms
from celery_fair.groups import GroupStore, store_at
from celery_fair.groups.keeper import Keeper
from celery_fair.routing.key_exchange import KeyExchange, key_exchanges, refuse_elsewhere
from celery_fair.settings import Settings
from celery_fair.worker.partitions import Partitions
from celery_fair.worker.step import FairConsumerStep, refusing

__all__ = ["GroupStep", "store_for"]

logger = logging.getLogger(__name__)

_LOOKS = 0.1
"""Seconds between two looks at what has been agreed."""


def store_for(settings: Settings, connection: Any) -> GroupStore:
    """Return the store of the groups of partitioned queues.

    Arguments:
        connection: kombu's, to the broker.

    Raises:
        celery.exceptions.ImproperlyConfigured: there is none, or the broker cannot do what they
            ask for.
    """
    if settings.group_store is None:
        raise ImproperlyConfigured(
            "fair_partitions needs fair_group_store, where the workers of a group agree:"
            " 'redis://…', 'postgresql+psycopg://…', 'sqlite:///…' or 'zookeeper://…'"
        )
    for queue in settings.partitioned.values():
        if queue.via == "exchange":
            refuse_elsewhere(queue, connection)
    return store_at(settings.group_store)


class GroupStep(bootsteps.StartStopStep):
    """Joins the groups of ``fair_partitions``, and consumes what they assign.

    Added by `celery_fair.install`. Without ``fair_partitions`` it does nothing.
    """

    label = "Partition groups"
    requires = (FairConsumerStep,)

    def __init__(self, c: Any, **kwargs: Any) -> None:
        super().__init__(c, **kwargs)
        parts = c.fair.parts
        settings = parts.settings
        self.partitions: list[Partitions] = []
        self._exchanges: list[KeyExchange] = []
        self._timer: Any = None
        self._told_at = self._heartbeat = 0.0
        self._store: Any = None
        if not settings.partitioned:
            return
        with refusing(c):
            self._store = store_for(settings, c.conninfo)
        terms = Terms(settings.group_lease)
        self._heartbeat = terms.heartbeat
        self._exchanges += key_exchanges(c.app.amqp, settings.partitioned).values()
        if self._exchanges:
            c.fair.when_declared(partial(self._declare, c))
        me = f"{c.hostname}:{uuid4().hex[:8]}"
        for group, partitions in settings.partitions.items():
            keeper = Keeper(self._store, group, partitions, me, terms, settings.group_recovery)
            self.partitions.append(
                Partitions(
                    keeper,
                    terms,
                    parts.gates,
                    parts.in_flight,
                    parts.tokens,
                    c.app.amqp.queues,
                    sender=c.fair,
                )
            )

    def start(self, c: Any) -> None:
        """Join, once; and consume on a new connection what is owned."""
        if not self.partitions:
            return
        self._declare(c)
        self._tell_broker(c)
        for each in self.partitions:
            each.join()
        self._timer = c.timer.call_repeatedly(_LOOKS, self._look, (c,))

    def _declare(self, c: Any, lost: str | None = None) -> None:
        """Declare the exchanges; of a queue that was deleted, with its binding, the one it had."""
        for exchange in self._exchanges:
            if lost is None or lost in exchange.target.queues:
                with c.connection.channel() as channel:
                    exchange.declare(channel=channel)

    def _tell_broker(self, c: Any) -> None:
        """Tell the groups on which broker this is: another one, if it was emptied meanwhile."""
        self._told_at = monotonic()
        broker = broker_of(c.connection).identity(c.connection)
        for each in self.partitions:
            each.is_on(broker)

    def stop(self, c: Any) -> None:
        """The connection is gone, or the worker is to end."""
        self._stop_looking()
        if c.blueprint.state == RUN:  # else what is held goes back first
            for each in self.partitions:
                each.lost_broker()

    def _stop_looking(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def shutdown(self, c: Any) -> None:
        """All work has ended: leave."""
        self._stop_looking()
        partitions, self.partitions = self.partitions, []
        for each in partitions:
            each.close(c.fair.consumer)
        if self._store is not None:
            self._store.close()

    def _look(self, c: Any) -> None:
        # Without an event loop timers have a thread of their own.
        if c.hub:
            self._look_at_all(c)
        else:
            c.call_soon(self._look_at_all, c)

    def _look_at_all(self, c: Any) -> None:
        try:
            if monotonic() >= self._told_at + self._heartbeat:
                self._tell_broker(c)
            for each in self.partitions:
                each.look(c.fair.consumer)
        except c.connection_errors as exc:  # the consumer's loop will notice, too
            logger.warning("Lost the broker while partitions were changed: %s", exc)
        c.fair.parts.bell.soon()  # what was given back is to be written
