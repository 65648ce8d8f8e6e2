"""What there is to combine."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

BROKERS = (
    "RabbitMQ 3",
    "RabbitMQ 4",
    "RabbitMQ, TLS",
    "Redis",
    "Redis, TLS",
    "Redis Sentinel",
    "Valkey",
    "SQS",
)
QUEUES = ("classic", "quorum")
POOLS = {"prefork": 2, "threads": 2, "solo": 1, "gevent": 2, "eventlet": 2}
"""By name, how many tasks run at a time."""
CELERYS = ("5.5", "5.6", "5.7")
REFUSED = {("SQS", "gevent"), ("SQS", "eventlet")}
"""What a fair worker says itself that it does not do."""


class Cell(NamedTuple):
    """One combination."""

    broker: str
    queue: str
    """Its type; empty where there is one type only."""
    pool: str
    celery: str

    def __str__(self) -> str:
        return "/".join(filter(None, self))


def cells() -> Iterator[Cell]:
    """All combinations that there are."""
    for broker, pool, celery in product(BROKERS, POOLS, CELERYS):
        if (broker, pool) not in REFUSED:
            for queue in QUEUES if broker.startswith("RabbitMQ") else ("",):
                yield Cell(broker, queue, pool, celery)
