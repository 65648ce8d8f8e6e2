"""Partitioned queues, as in ``fair_partitions``, and the groups of workers that share them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from celery.exceptions import ImproperlyConfigured

from celery_fair.core.assignment import partition_of
from celery_fair.settings.values import (
    imported,
    mapping,
    one_of,
    queue_name,
    seconds,
    url,
    whole,
)

__all__ = [
    "SERIAL",
    "GroupOptions",
    "PartitionedQueue",
    "group_options",
    "partitioned_queues",
    "with_partitions",
]

_OPTIONS = {"partitions", "key", "group", "serial", "via"}
_SERIAL = ("partition", "key")
_VIAS = ("hash", "exchange")
SERIAL = "a partition runs one task at a time, unless 'serial' is 'key' in fair_partitions"
_MOST = 10_000


@dataclass(frozen=True)
class PartitionedQueue:
    """One entry of ``fair_partitions``.

    Attributes:
        name: what is published to.
        count: of its partitions, which are queues of their own.
        key: returns the partition key of a task's arguments; None: each publication names it.
        group: the workers that share the partitions.
        serial: what runs one task at a time: "partition", or each "key".
        via: what finds a key's partition: a hash in the publisher, or an exchange of RabbitMQ's.
    """

    name: str
    count: int
    key: Callable[..., Any] | None = None
    group: str = ""
    serial: str = "partition"
    via: str = "hash"

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
            TypeError, ValueError: as `celery_fair.core.assignment.partition_of`.
        """
        return f"{self.name}.{partition_of(key, self.count)}"


@dataclass(frozen=True)
class GroupOptions:
    """How a worker is a member of its groups; times in seconds.

    Attributes:
        store: URL of where the groups are kept.
        lease: how long a member that is not heard of is one.
        heartbeat: how often a member makes itself heard.
        margin: how long before the end of its lease a member stops consuming.
        pause: between two assignments at the least.
        delay: from the assignment of a partition until it is consumed.
        patience: how long running work is waited for before its partition is given up.
        recovery: after a lease was lost, until the next attempt; None: there is none.
    """

    store: str
    lease: float = 60.0
    heartbeat: float = 25.0
    margin: float = 5.0
    pause: float = 0.0
    delay: float = 0.0
    patience: float = 60.0
    recovery: float | None = 30.0


def partitioned_queues(value: Any) -> dict[str, PartitionedQueue]:
    """Check ``fair_partitions``.

    Raises:
        celery.exceptions.ImproperlyConfigured: naming the queue, the option, and what is allowed.
    """
    return {
        queue_name("fair_partitions", name): _partitioned(name, options)
        for name, options in mapping("fair_partitions", value).items()
    }


def _partitioned(name: str, options: Any) -> PartitionedQueue:
    where = f"fair_partitions[{name!r}]"
    if not isinstance(options, Mapping) or "partitions" not in options or set(options) - _OPTIONS:
        raise ImproperlyConfigured(
            f"{where} must be a mapping with 'partitions' and, optionally,"
            f" {', '.join(map(repr, sorted(_OPTIONS - {'partitions'})))}, not {options!r}"
        )
    number = whole(f"{where}['partitions']", options["partitions"], 1, _MOST)
    key = options.get("key")
    if isinstance(key, str):
        key = imported(f"{where}['key']", key)
    if key is not None and not callable(key):
        raise ImproperlyConfigured(
            f"{where}['key'] must be a callable of the task's arguments, or the dotted path of one,"
            f" not {key!r}"
        )
    group = queue_name(f"{where}['group']", options.get("group", name))
    serial = one_of(f"{where}['serial']", options.get("serial", "partition"), _SERIAL)
    via = one_of(f"{where}['via']", options.get("via", "hash"), _VIAS)
    return PartitionedQueue(name, number, key, group, serial, via)


def with_partitions(
    value: Any, partitioned: Mapping[str, PartitionedQueue], logical: Collection[str]
) -> Any:
    """Return ``fair_queues`` with a partitioned queue's options given to each of its partitions.

    Pulled if nothing else is said: what is not held here need not be given back, out of its order.

    Arguments:
        value: of ``fair_queues``.
        logical: names of logical queues.

    Raises:
        celery.exceptions.ImproperlyConfigured: naming the queue, the option, and what is allowed.
    """
    if not partitioned:
        return value
    taken = dict(mapping("fair_queues", value))
    for name, queue in partitioned.items():
        if name in logical:
            raise ImproperlyConfigured(f"fair_partitions: {name!r} is a logical queue already")
        options = taken.pop(name, {})
        if isinstance(options, Mapping):
            options = _serial(queue, options)
        for partition in queue.queues:
            if partition in taken:
                raise ImproperlyConfigured(
                    f"fair_queues: {partition!r} is a partition; give options to {name!r}"
                )
            taken[partition] = options
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


def group_options(conf: Any) -> GroupOptions | None:
    """Check ``fair_group_…``; None where there is no store.

    Raises:
        celery.exceptions.ImproperlyConfigured: naming the setting and what is allowed.
    """
    store = url("fair_group_store", conf.get("fair_group_store"))
    if store is None:
        return None
    times = {
        name: seconds(f"fair_group_{name}", conf.get(f"fair_group_{name}", default))
        for name, default in (("lease", 60.0), ("heartbeat", 25.0), ("margin", 5.0))
    }
    if times["heartbeat"] + times["margin"] >= times["lease"]:
        raise ImproperlyConfigured(
            "fair_group_lease = {lease}: it must be longer than fair_group_heartbeat ({heartbeat})"
            " and fair_group_margin ({margin}) together".format(**times)
        )
    for name, default in (("pause", 0.0), ("delay", 0.0), ("patience", 60.0)):
        times[name] = _not_negative(f"fair_group_{name}", conf.get(f"fair_group_{name}", default))
    recovery = conf.get("fair_group_recovery", 30.0)
    if recovery is not None:
        recovery = _not_negative("fair_group_recovery", recovery)
    return GroupOptions(store, recovery=recovery, **times)


def _not_negative(where: str, value: Any) -> float:
    return 0.0 if value == 0 and not isinstance(value, bool) else seconds(where, value)
