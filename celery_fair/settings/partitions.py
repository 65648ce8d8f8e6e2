"""Partitioned queues, as in ``fair_partitions``, which groups of workers share."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from celery.exceptions import ImproperlyConfigured

from celery_fair.core.groups.assignment import partition_of
from celery_fair.settings import values
from celery_fair.settings.table import from_options

SERIAL = "a partition runs one task at a time, unless 'serial' is 'key' in fair_partitions"
_MOST = 10_000
_key = values.or_none(values.function("a callable of the task's arguments"))


@dataclass(frozen=True)
class PartitionedQueue:
    """One entry of ``fair_partitions``; `name` is what is published to."""

    name: str
    count: Annotated[int, values.whole(1, _MOST)] = field(metadata={"name": "partitions"})
    """How many partitions there are, which are queues of their own."""
    key: Annotated[Callable[..., Any] | None, _key] = None
    """Returns the partition key of a task's arguments; without it, each publication names it."""
    group: values.QueueName = ""
    """The workers that share the partitions."""
    serial: Annotated[str, values.choice("partition", "key")] = "partition"
    """Of what one task runs at a time: of a partition, or of each key."""
    via: Annotated[str, values.choice("hash", "exchange")] = "hash"
    """What finds a key's partition: a hash in the publisher, or an exchange of RabbitMQ's."""

    @property
    def queues(self) -> list[str]:
        """The partitions' names."""
        return [f"{self.name}.{number}" for number in range(self.count)]

    @property
    def exchange(self) -> str:
        """What is published to where an exchange finds them; another count has another."""
        return f"{self.name}.partitions.{self.count}"

    def queue_of(self, key: Any) -> str:
        """Return the partition that a key belongs to.

        Raises:
            TypeError, ValueError: as `celery_fair.core.groups.assignment.partition_of`.
        """
        return f"{self.name}.{partition_of(key, self.count)}"


@values.by_queue
def partitioned_queues(where: str, name: str, options: Any) -> PartitionedQueue:
    """Check an entry of ``fair_partitions``."""
    given = from_options(PartitionedQueue, where, options)
    if "count" not in given:
        raise ImproperlyConfigured(f"{where} must have 'partitions', their number")
    return PartitionedQueue(name, **{"group": name, **given})


def with_partitions(
    queues: values.ByQueue, partitioned: Mapping[str, PartitionedQueue], logical: Collection[str]
) -> values.ByQueue:
    """Return ``fair_queues`` with a partitioned queue's options given to each of its partitions.

    Pulled if nothing else is said: what is not held here need not be given back, out of its order.

    Arguments:
        queues: ``fair_queues``.
        logical: names of logical queues.

    Raises:
        celery.exceptions.ImproperlyConfigured: naming the queue, the option, and what is allowed.
    """
    taken = dict[str, Mapping[str, Any]]()
    for name in dict.fromkeys([*queues, *partitioned]):  # of targets the first is kept first
        options, queue = queues.get(name, {}), partitioned.get(name)
        if queue is None:
            taken[name] = options
            continue
        if name in logical:
            raise ImproperlyConfigured(f"fair_partitions: {name!r} is a logical queue already")
        if named := queues.keys() & set(queue.queues):
            raise ImproperlyConfigured(
                f"fair_queues: {min(named)!r} is a partition; give options to {name!r}"
            )
        taken |= dict.fromkeys(queue.queues, _serial(queue, options))
    return taken


def _serial(queue: PartitionedQueue, options: Mapping[str, Any]) -> dict[str, Any]:
    where = f"fair_queues[{queue.name!r}]"
    if queue.serial == "key":
        if options.get("fetch", "pull") != "pull":
            raise ImproperlyConfigured(
                f"{where}: 'fetch' must be 'pull', not {options['fetch']!r}, where"
                f" fair_partitions[{queue.name!r}]['serial'] is 'key'"
            )
        return {"fetch": "pull", **options}
    if options.get("max_in_flight", 1) != 1:
        raise ImproperlyConfigured(
            f"{where}: 'max_in_flight' = {options['max_in_flight']!r}, but {SERIAL}"
        )
    return {"fetch": "pull", **options, "max_in_flight": 1}
