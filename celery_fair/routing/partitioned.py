"""Partitioned queues: the application names one queue and a key, the key decides the partition.

This happens in Celery's sender, which every way of publishing goes through (see `sender`). A retry
goes to the partition that its message came from.

Which partition that is follows from the key's hash, or is up to an exchange at the broker, see
`key_exchange`.
"""

from collections.abc import Mapping
from typing import Any

from celery_fair.core.groups.assignment import key_text
from celery_fair.headers import KEY
from celery_fair.routing.key_exchange import key_exchanges, refuse_elsewhere
from celery_fair.routing.publication import Publication, Step, arguments
from celery_fair.settings import PartitionedQueue


def partitioned(amqp: Any, queues: Mapping[str, PartitionedQueue]) -> Step:
    """Return the step that puts a partition in a partitioned queue's place.

    It raises `TypeError` or `ValueError` for a key that is missing or cannot be one.
    """
    exchanges = key_exchanges(amqp, queues)

    def choose_partition(this: Publication) -> None:
        given = this.options.pop("partition_key", None)
        named, target = this.aimed_at(queues)
        if target is not None:
            key = _key(target, this.task, this.message, given)
            this.message.headers[KEY] = key_text(key)
            chooses = exchanges.get(target.name)
            if chooses is None:
                this.aim(amqp.queues[target.queue_of(key)])
            else:
                refuse_elsewhere(target, this.producer.connection)
                this.aim(amqp.queues[target.name], target.exchange, key_text(key))
                this.options["declare"] = [chooses, *(this.options.get("declare") or ())]
        elif given is not None:
            raise ValueError(
                f"{this.task}: partition_key = {given!r:.80} was given, but {named!r} is no"
                f" partitioned queue; fair_partitions has: {', '.join(sorted(queues))}"
            )

    return choose_partition


def _key(target: PartitionedQueue, task: str, message: Any, key: Any) -> Any:
    """Return the key, if it can be one."""
    where = f"{task} to the partitioned queue {target.name!r}"
    if key is None and target.key is not None:
        args, kwargs = arguments(message)
        key = target.key(*args, **kwargs)
    if key is None:
        setting = f"fair_partitions[{target.name!r}]['key']"
        remedy = f"set {setting}" if target.key is None else f"mend {setting}, which returned None"
        raise ValueError(
            f"{where}: there is no partition key; publish with partition_key=…, or {remedy}"
        )
    try:
        key_text(key)
    except (TypeError, ValueError) as exc:
        raise type(exc)(f"{where}: {exc}") from None
    return key
