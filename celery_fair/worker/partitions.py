"""The partitions that a worker owns: consumed while it does, and no longer.

A bootstep makes the worker a member of the groups of its partitioned queues. A look, several times
a second, on the thread that owns the channels: takes up what the keepers have agreed on with their
groups, stops what was revoked, starts what was assigned. Between two looks a lease may end, above
all where the whole process stood still; the gate of a partition therefore knows when that is, and
lets nothing pass then.
"""

import logging
from collections.abc import Mapping
from functools import partial
from time import monotonic
from typing import Any
from uuid import uuid4

from amqp import ChannelError
from celery import bootsteps
from celery.bootsteps import RUN  # type: ignore[attr-defined]
from celery.exceptions import ImproperlyConfigured
from celery.utils.dispatch import Signal

from celery_fair.brokers.broker import broker_of
from celery_fair.clock import elapsed
from celery_fair.core.groups.membership import STOPS, Terms
from celery_fair.core.groups.tenure import Tenure
from celery_fair.groups import GroupStore, StoreUnreachableError, store_at
from celery_fair.groups.keeper import Keeper, Taken, Trouble
from celery_fair.routing.key_exchange import KeyExchange, key_exchanges, refuse_elsewhere
from celery_fair.settings import Settings
from celery_fair.worker.dispatch.gates import Gates
from celery_fair.worker.launch.in_flight import InFlight
from celery_fair.worker.queues.consumer import FairTaskConsumer
from celery_fair.worker.step import FairConsumerStep, refusing

logger = logging.getLogger(__name__)

_AGAIN = 5.0
"""Seconds until a queue that could not be declared is declared again."""

partitions_assigned = Signal(name="partitions_assigned", providing_args=["partitions", "group"])
"""Sent before a worker consumes ``partitions``, a dict of names to fencing tokens; ``group``."""

partitions_revoked = Signal(name="partitions_revoked", providing_args=["partitions", "group"])
"""Sent when a worker has stopped to consume ``partitions``, a set of names; some may still run."""

rebalance_failed = Signal(
    name="rebalance_failed", providing_args=["message", "will_recover", "exception", "group"]
)
"""Sent when a group cannot be asked: a ``message``, the ``exception``, and ``will_recover``."""


class Partitions:
    """Of one worker in one group.

    Arguments:
        keeper: takes its turns.
        terms: of the group.
        gates: of the worker's queues.
        in_flight: what still runs here.
        tokens: is given those of the partitions that are owned.
        queues: the app's, by name.
        sender: of the signals.
    """

    def __init__(
        self,
        keeper: Keeper,
        terms: Terms,
        gates: Gates,
        in_flight: InFlight,
        tokens: dict[str, int],
        queues: Mapping[str, Any],
        sender: Any,
    ) -> None:
        self._keeper = keeper
        self._gates = gates
        self._in_flight = in_flight
        self._tokens = tokens
        self._queues = queues
        self._sender = sender
        self._patience = terms.patience
        self.tenure = Tenure(terms)
        self._again: dict[str, float] = {}  # when to declare again what could not be
        self._lost_until: float | None = None
        self._joined = False

    def is_on(self, broker: str) -> None:
        """Say from which broker is consumed, "" if that cannot be told; `STOPS`."""
        self._keeper.is_on(broker)

    def join(self) -> None:
        """Become a member, if that has not been done."""
        if not self._joined:
            self._joined = True
            self._keeper.start()

    def lost_broker(self) -> None:
        """Nothing is consumed, and nobody looks, until there is another connection."""
        if self._lost_until is None:  # a broker that comes and goes begins nothing anew
            self._lost_until = elapsed() + self._patience
        until = self._lost_until
        self._keeper.consumes_nothing(lambda name: elapsed() < until and self._runs(name))

    def look(self, consumer: FairTaskConsumer | None) -> None:
        """Bring what is consumed up to date.

        Arguments:
            consumer: the present connection's, if there is one.
        """
        self._lost_until = None
        is_back = self._keeper.is_back()  # first: then the news tell of all that was given up
        for news in self._keeper.news():  # a lease that was renewed while the loop stood still
            if isinstance(news, Trouble):
                self._failed(news)
            else:
                self._take_up(news, consumer)
        now = elapsed()
        self._revoke(self.tenure.lapsed(now), consumer)
        if is_back:
            self._consume_what_is_due(now, consumer)
        self._keeper.holds(self.tenure.holds(now, self._runs))

    def _runs(self, name: str) -> bool:
        return self._in_flight.of(name) > 0

    def _take_up(self, taken: Taken, consumer: FairTaskConsumer | None) -> None:
        change = self.tenure.took(taken.turn, taken.asked, elapsed())
        self._revoke(change.revoked, consumer)
        if change.assigned:
            logger.info("Group %s: assigned %s", self._keeper.group, ", ".join(change.assigned))
            partitions_assigned.send(
                self._sender, partitions=dict(change.assigned), group=self._keeper.group
            )
            self._tokens.update(change.assigned)

    def _revoke(self, revoked: frozenset[str], consumer: FairTaskConsumer | None) -> None:
        if not revoked:
            return
        logger.info("Group %s: revoked %s", self._keeper.group, ", ".join(sorted(revoked)))
        for name in revoked:
            self._again.pop(name, None)
            if consumer is not None:
                self._cancel(name, consumer)
        group = self._keeper.group
        partitions_revoked.send(self._sender, partitions=set(revoked), group=group)

    def _cancel(self, name: str, consumer: FairTaskConsumer) -> None:
        try:
            consumer.cancel_by_queue(name)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the others are to end, too
            logger.warning(
                "Group %s: partition %s is consumed no more, as the connection was lost meanwhile;"
                " the broker has back what waited of it: %r",
                self._keeper.group,
                name,
                exc,
            )

    def _consume_what_is_due(self, now: float, consumer: FairTaskConsumer | None) -> None:
        if consumer is None:
            return
        known = {queue.name for queue in consumer.queues}
        wanted = [
            name for name in self.tenure.owned.keys() - known if self._again.get(name, 0.0) <= now
        ]
        if not wanted:
            return
        for name in sorted(wanted):
            self._gates.of(name).fence(self._is_over)
            try:
                consumer.add_queue(self._queues[name])
            except ChannelError as exc:
                self._refused(name, exc, now)
        consumer.consume()

    def _refused(self, name: str, answer: ChannelError, now: float) -> None:
        """The broker declares no such queue, as one of its name is otherwise: try again later."""
        if name not in self._again:
            logger.error(
                "Group %s: partition %s cannot be consumed, as its queue cannot be declared; trying"
                " again every %g s: %s",
                self._keeper.group,
                name,
                _AGAIN,
                answer,
            )
        self._again[name] = now + _AGAIN

    def _is_over(self, _: float) -> bool:
        return elapsed() >= self.tenure.until

    def _failed(self, trouble: Trouble) -> None:
        where = "fair_group_store: " if isinstance(trouble.error, StoreUnreachableError) else ""
        message = f"group {self._keeper.group!r}: {where}{trouble.error}"
        logger.error(
            "Cannot agree with %s; %s",
            message,
            "trying again"
            if trouble.will_recover
            else "giving up when the lease is over, as fair_group_recovery is None",
        )
        rebalance_failed.send(
            self._sender,
            message=message,
            will_recover=trouble.will_recover,
            exception=trouble.error,
            group=self._keeper.group,
        )

    def close(self, consumer: FairTaskConsumer | None) -> None:
        """Everything has ended here: let others have it."""
        if self._joined:
            self._revoke(self.tenure.left(elapsed()), consumer)
            self._keeper.leave()


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
        look = partial(self._look, c)
        # Without an event loop timers have a thread of their own.
        self._timer = c.timer.call_repeatedly(_LOOKS, look if c.hub else partial(c.call_soon, look))

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
        for each in self.partitions:
            if c.blueprint.state == RUN:
                each.lost_broker()
            else:  # nothing is given up before what is held has gone back, and what runs has ended
                each.is_on(STOPS)

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
        try:
            if monotonic() >= self._told_at + self._heartbeat:
                self._tell_broker(c)
            for each in self.partitions:
                each.look(c.fair.consumer)
        except c.connection_errors as exc:  # the consumer's loop will notice, too
            logger.warning("Lost the broker while partitions were changed: %s", exc)
        c.fair.parts.wake_up.soon()  # what was given back is to be written
