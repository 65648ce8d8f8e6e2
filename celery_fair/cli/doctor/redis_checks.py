"""What a live Redis says, as broker or as ledger."""

from collections.abc import Iterator
from typing import Any

from celery_fair.brokers.broker import shown
from celery_fair.cli.doctor.findings import Finding, dead_letters, ok, weak, wrong
from celery_fair.cli.doctor.visibility import visibility

__all__ = ["redis_findings", "server_findings"]

_CROWDED = 0.8

_DEFAULT_VISIBILITY = 3600
"""Seconds; kombu's."""


def redis_findings(app: Any, connection: Any, queues: list[Any], letters: str) -> Iterator[Finding]:
    """Check Redis as the app's broker; `connection` is connected."""
    channel = connection.default_channel
    client = channel.client
    yield ok("broker", f"Redis {client.info('server')['redis_version']} at {shown(connection)}")
    yield from server_findings("broker", client)
    yield from _limits(client)
    options = app.conf.broker_transport_options or {}
    yield visibility(app, float(options.get("visibility_timeout", _DEFAULT_VISIBILITY)))
    for queue in queues:
        yield ok(f"queue {queue.name}", f"{channel._size(queue.name)} messages")
    yield dead_letters(channel._size(letters), letters)


def _limits(client: Any) -> Iterator[Finding]:
    """A worker has a handful of connections, and one more for each thread or process that asks."""
    clients = client.info("clients")
    most, now = clients.get("maxclients"), clients.get("connected_clients", 0)
    if most and now > _CROWDED * most:
        yield weak(
            "broker: connections",
            f"{now} of at most {most} clients are connected; beyond, workers and publishers are"
            " refused",
            "redis-cli config set maxclients …, and in redis.conf",
        )


def server_findings(topic: str, client: Any) -> Iterator[Finding]:
    """Check what a Redis keeps over a restart, and when it is full."""
    persistence, memory = client.info("persistence"), client.info("memory")
    if persistence.get("aof_enabled"):
        yield ok(f"{topic}: persistence", "append-only file")
    else:
        yield weak(
            f"{topic}: persistence",
            "without an append-only file a restart loses what came since the last snapshot, if"
            " there is one",
            "redis-cli config set appendonly yes, and appendonly yes in redis.conf",
        )
    policy = memory.get("maxmemory_policy", "")
    if memory.get("maxmemory") and policy != "noeviction":
        yield wrong(
            f"{topic}: memory",
            f"when its memory is full it deletes keys ({policy}), whatever they are",
            "redis-cli config set maxmemory-policy noeviction, and in redis.conf",
        )
    else:
        yield ok(f"{topic}: memory", "when it is full it refuses, and deletes nothing")
