"""What a live Redis says, as broker or as ledger.

What it lets the app's user do is asked by commands that are refused, or discarded.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from kombu import Exchange, Queue

from celery_fair.brokers.broker import shown
from celery_fair.brokers.keyed.scripts import base_of
from celery_fair.brokers.redis import Commands
from celery_fair.operate.doctor.findings import Finding, listed, ok, weak, wrong
from celery_fair.operate.doctor.holding import visibility
from celery_fair.settings import Settings

_DEFAULT_VISIBILITY = 3600
"""Seconds; kombu's."""


def redis_findings(app: Any, connection: Any, settings: Settings) -> Iterator[Finding]:
    """Check Redis as the app's broker; `connection` is connected."""
    from redis.exceptions import NoPermissionError

    queues, letters = list(app.amqp.queues.values()), settings.dead_letters
    rejected = Queue(letters, Exchange(letters, type="fanout"))
    channel = connection.default_channel
    send = Commands(channel)
    yield ok("broker", f"Redis at {shown(connection)}")
    asked = list(_working(channel, send, [*queues, rejected], list(settings.keys)))
    yield _rights(send, connection.userid or "default", asked)
    yield from server_findings("broker", channel.client)
    options = app.conf.broker_transport_options or {}
    yield visibility(app, float(options.get("visibility_timeout", _DEFAULT_VISIBILITY)))
    for queue in queues:
        with suppress(NoPermissionError):  # one by one: a server that is full refuses transactions
            size = sum(int(send("LLEN", key)) for key in send.lists(queue.name))
            if queue.name in settings.keys:
                size += int(send("HGET", send.key(base_of(queue.name)), "waiting") or 0)
            yield ok(f"queue {queue.name}", f"{size} messages")


def server_findings(topic: str, client: Any) -> Iterator[Finding]:
    """Check what a Redis keeps over a restart, and when it is full."""
    from redis.exceptions import NoPermissionError

    try:
        told = client.info()
    except NoPermissionError:
        yield weak(
            f"{topic}: persistence",
            "its user may not ask whether it keeps what it has (INFO)",
            "redis-cli ACL SETUSER … +info",
        )
        return
    if told.get("aof_enabled"):
        yield ok(f"{topic}: persistence", "append-only file")
    else:
        yield weak(
            f"{topic}: persistence",
            "without an append-only file a restart loses what came since the last snapshot, if"
            " there is one",
            "redis-cli config set appendonly yes, and appendonly yes in redis.conf",
        )
    policy = told.get("maxmemory_policy", "")
    if told.get("maxmemory") and policy != "noeviction":
        yield wrong(
            f"{topic}: memory",
            f"when its memory is full it deletes keys ({policy}), whatever they are",
            "redis-cli config set maxmemory-policy noeviction, and in redis.conf",
        )
    elif told.get("maxmemory") and told.get("used_memory", 0) >= told["maxmemory"]:
        yield wrong(
            f"{topic}: memory",
            "it is full: whoever publishes is refused, and workers hear no commands",
            "let fair workers work it off, or redis-cli config set maxmemory …, and in redis.conf",
        )
    else:
        yield ok(f"{topic}: memory", "when it is full it refuses, and deletes nothing")


def _rights(send: Commands, user: str, asked: Sequence[tuple[Any, ...]]) -> Finding:
    """Say what its user may not do of what workers do."""
    refused = [
        f"{' '.join(map(str, command))} ({why})"
        for command, why in zip(asked, send.refused(asked), strict=True)
        if why
    ]
    if not refused:
        return ok("broker: rights", f"user {user!r} may do what workers do")
    return wrong(
        "broker: rights",
        f"user {user!r} may not do what workers do: {listed(refused)}",
        f"redis-cli ACL SETUSER {user} …, as under Rights on RabbitMQ and Redis; what was refused"
        " to whom, redis-cli ACL LOG says",
    )


def _working(
    channel: Any, send: Commands, queues: Sequence[Any], keyed: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield what a worker, and its publishers, send; each with the keys that it is about."""
    held, index = send.unacked
    for queue in queues:
        lists = send.lists(queue.name)
        yield ("EXISTS", *lists)
        yield ("EVALSHA", "0", 2 + len(lists), held, index, *lists)
        for key in lists[:1]:
            yield from (("LPUSH", key, ""), ("RPUSH", key, ""), ("RPOP", key), ("LLEN", key))
            yield from (("EXISTS", key), ("LINDEX", key, -1))
        if queue.exchange.name:
            yield ("SADD", send.key(channel.keyprefix_queue % queue.exchange.name), "")
    for queue in keyed:
        yield ("EVALSHA", "0", 1, f"{send.key(base_of(queue))}:tags")
    yield from (("HSET", held, "", ""), ("HGET", held, ""), ("HDEL", held, ""))
    yield from (("ZADD", index, 0, ""), ("ZREM", index, ""))
    yield ("ZREVRANGEBYSCORE", index, 0, 0)
    yield ("SET", send.key(channel.unacked_mutex_key), "")
    yield ("SCRIPT", "LOAD", "")
    yield ("HGETALL", send.key("celery-fair:kept"))
    for each in ("celery.pidbox", "celeryev/worker.heartbeat"):
        yield ("PUBLISH", f"{channel.keyprefix_fanout}{each}", "")
