"""The exchange that finds a key's partition: RabbitMQ's ``x-consistent-hash``.

It has a ring of buckets, one for each binding of weight 1, and a routing key's hash chooses the
bucket. Which partition that is depends on the *order* in which the partitions were bound.

Invariant: the ring has all partitions, in the order of their numbers, before anything is published.

* Every publisher and every consumer first declares the exchange and binds all partitions, from 0
  upwards, on each connection. A binding that exists stays where it is. If several do this at once,
  the first to bind a number has already bound the lower ones: the ring is the same, no matter who
  made it.
* A durable exchange comes back from the broker's restart with its bindings in another order, so
  that keys move. (RabbitMQ 3.10: in that of their names, more or less.) This one is not durable. It
  goes away with the broker, as do all connections, and the first client that comes back makes it
  again. Publishing before that is refused; nothing is lost silently. Queues and messages are
  durable.
* Its name has the number of partitions, so that no binding of an earlier number is in the ring.
  Names of queues end in a number, too; Celery makes direct exchanges of these names.

If a partition's queue is deleted, its bucket goes, and keys move. Declared again, it is the ring's
last; the order is right again when the broker has been restarted, or the exchange deleted.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from amqp import PreconditionFailed
from amqp.exceptions import InvalidCommand
from celery.exceptions import ImproperlyConfigured
from kombu import Exchange, Queue

from celery_fair.brokers.broker import broker_of
from celery_fair.settings import PartitionedQueue

_TYPE = "x-consistent-hash"
_WEIGHT = "1"
_UNKNOWN = re.compile("(unknown|invalid) exchange type")
"""RabbitMQ 4 answers with the code of another exchange's refusal: "invalid" where the plugin was on
before, or is there and off, as RabbitMQ knows the name then."""


class KeyExchange(Exchange):
    """An exchange that is declared with the partitions bound to it.

    Attributes:
        target: what it finds partitions for.
        queues: these, by their numbers.
    """

    attrs = (*Exchange.attrs, ("target", None), ("queues", None))
    target: PartitionedQueue
    queues: Sequence[Queue]

    def declare(
        self, nowait: bool = False, passive: bool | None = None, channel: Any = None
    ) -> None:
        """Declare the exchange and its queues, and bind all of them.

        Raises:
            celery.exceptions.ImproperlyConfigured: the broker has no exchanges of the type, or
                another of the name.
        """
        channel = channel or self.channel
        try:
            super().declare(channel=channel)
        except (InvalidCommand, PreconditionFailed) as exc:
            raise ImproperlyConfigured(f"{_setting(self.target)}: {self._trouble(exc)}") from exc
        for queue in self.queues:
            queue.queue_declare(channel=channel)
            queue.bind_to(self, _WEIGHT, channel=channel)

    def _trouble(self, answer: Exception) -> str:
        if isinstance(answer, InvalidCommand) or _UNKNOWN.search(str(answer)):
            return (
                f"the broker cannot declare the exchange {self.name!r} of type {_TYPE} ({answer})."
                f" Run rabbitmq-plugins enable rabbitmq_consistent_hash_exchange on its nodes, or"
                f" set 'hash'"
            )
        return (
            f"there is another exchange {self.name!r} ({answer}). Delete it, or name the queue"
            f" otherwise"
        )


def key_exchanges(amqp: Any, queues: Mapping[str, PartitionedQueue]) -> dict[str, KeyExchange]:
    """Return the exchanges of those partitioned queues that have one, by the queue's name."""
    return {
        name: KeyExchange(
            target.exchange,
            _TYPE,
            durable=False,
            target=target,
            queues=[amqp.queues[partition] for partition in target.queues],
        )
        for name, target in queues.items()
        if target.via == "exchange"
    }


def refuse_elsewhere(target: PartitionedQueue, connection: Any) -> None:
    """Raise unless the broker that kombu connects to may have such exchanges.

    Raises:
        celery.exceptions.ImproperlyConfigured: it is another.
    """
    broker = broker_of(connection)
    if not broker.hashes:
        raise ImproperlyConfigured(
            f"{_setting(target)}: this broker ({broker.driver}) has no exchanges of type {_TYPE};"
            f" RabbitMQ has. Set 'hash'"
        )


def _setting(target: PartitionedQueue) -> str:
    return f"fair_partitions[{target.name!r}]['via'] = 'exchange'"
