"""Partitioned queues: the application names one queue and a key, the key decides the partition.

This happens in Celery's sender, which every way of publishing goes through (see `logical`). A retry
goes to the partition that its message came from.

Which partition that is follows from the key's hash, or is up to an exchange at the broker, see
`key_exchange`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from celery_fair.core.groups.assignment import key_text
from celery_fair.headers import KEY
from celery_fair.routing.destination import destination
from celery_fair.routing.key_exchange import key_exchanges, refuse_elsewhere
from celery_fair.settings import PartitionedQueue


def partitioned(
    amqp: Any, queues: Mapping[str, PartitionedQueue], send: Callable[..., Any]
) -> Callable[..., Any]:
    """Return Celery's sender `send`, with partitioned queues replaced by a partition.

    Calling it raises `TypeError` or `ValueError` for a key that is missing or cannot be one.
    """
    if not queues:
        return send
    exchanges = key_exchanges(amqp, queues)

    def send_task_message(
        producer: Any,
        name: str,
        message: Any,
        exchange: Any = None,
        routing_key: Any = None,
        queue: Any = None,
        partition_key: Any = None,
        **options: Any,
    ) -> Any:
        queue, named, target = destination(amqp, queues, exchange, routing_key, queue)
        if target is not None:
            key = _key(target, name, message, partition_key)
            message.headers[KEY] = key_text(key)
            chooses = exchanges.get(target.name)
            if chooses is None:
                exchange = routing_key = None
                queue = amqp.queues[target.queue_of(key)]
            else:
                refuse_elsewhere(target, producer.connection)
                exchange, routing_key = target.exchange, key_text(key)
                queue = amqp.queues[target.name]
                options["declare"] = [chooses, *(options.get("declare") or ())]
        elif partition_key is not None:
            raise ValueError(
                f"{name}: partition_key = {partition_key!r:.80} was given, but {named!r} is no"
                f" partitioned queue; fair_partitions has: {', '.join(sorted(queues))}"
            )
        return send(
            producer,
            name,
            message,
            exchange=exchange,
            routing_key=routing_key,
            queue=queue,
            **options,
        )

    return send_task_message


def _key(target: PartitionedQueue, task: str, message: Any, key: Any) -> Any:
    """Return the key, if it can be one."""
    where = f"{task} to the partitioned queue {target.name!r}"
    if key is None and target.key is not None:
        args, kwargs, *_ = message.body
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
