"""Queues that the broker gives every message of each other."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any


def collisions(queues: Iterable[Any]) -> Iterator[tuple[list[str], str, str]]:
    """Yield the names of queues that share a routing key, the exchange, and that key.

    Celery gives a ``Queue`` that was made without one the default queue's. On a direct exchange a
    message goes to each of them then: tasks run twice, and quanta mean nothing.
    """
    bound: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for queue in queues:
        exchange = queue.exchange
        if exchange is not None and exchange.name and exchange.type == "direct":
            bound[exchange.name, queue.routing_key].append(queue.name)
    for (exchange, key), names in sorted(bound.items()):
        if len(names) > 1:
            yield sorted(names), exchange, key
