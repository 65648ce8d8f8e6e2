"""What a live Redis says, as broker or as ledger."""

from collections.abc import Iterator
from typing import Any

from celery_fair.cli.doctor.findings import Finding, ok, weak, wrong
from celery_fair.core.disposition import Policy
from celery_fair.tasks import policy_of

__all__ = ["redis_findings", "server_findings"]

_DEFAULT_VISIBILITY = 3600
"""Seconds; kombu's."""


def redis_findings(
    app: Any, connection: Any, queues: list[Any], dead_letters: str
) -> Iterator[Finding]:
    """Check Redis as the app's broker; `connection` is connected."""
    channel = connection.default_channel
    client = channel.client
    yield ok("broker", f"Redis {client.info('server')['redis_version']} at {connection.as_uri()}")
    yield from server_findings("broker", client)
    yield _visibility(app)
    for queue in queues:
        yield ok(f"queue {queue.name}", f"{channel._size(queue.name)} messages")
    waiting = channel._size(dead_letters)
    if waiting:
        yield weak(
            "dead letters",
            f"{waiting} wait in queue {dead_letters}",
            "celery -A … fair dead-letters list",
        )
    else:
        yield ok("dead letters", f"none in queue {dead_letters}")


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


def _visibility(app: Any) -> Finding:
    options = app.conf.broker_transport_options or {}
    seconds = float(options.get("visibility_timeout", _DEFAULT_VISIBILITY))
    longer = []
    for name, task in sorted(app.tasks.items()):
        late = policy_of(task) is Policy.AFTER or task.acks_late
        limit = task.time_limit or app.conf.task_time_limit
        if late and not name.startswith("celery.") and (limit is None or limit > seconds):
            longer.append(name)
    if longer:
        return weak(
            "visibility timeout",
            f"what runs for longer than {seconds:g} s is delivered again while it runs, and"
            f" dead-lettered if it is non-repeatable: {', '.join(longer)}",
            "broker_transport_options = {'visibility_timeout': …} above the longest run, or a"
            " time_limit below it",
        )
    return ok("visibility timeout", f"{seconds:g} s, longer than what is acknowledged late may run")
