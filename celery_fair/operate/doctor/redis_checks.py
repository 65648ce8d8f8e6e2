"""What a live Redis says, as broker or as ledger.

What it lets the app's user do is asked by commands that are refused, or discarded.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kombu import Exchange, Queue

from celery_fair.brokers.broker import shown
from celery_fair.brokers.keyed.scripts import base_of
from celery_fair.brokers.redis import Commands
from celery_fair.operate.doctor.findings import Finding, dead_letters, ok, weak, wrong
from celery_fair.operate.doctor.holding import visibility

_CROWDED = 0.8

_RIGHTS = "broker: rights"
_SHOWN = 5

_DEFAULT_VISIBILITY = 3600
"""Seconds; kombu's."""


def redis_findings(
    app: Any, connection: Any, queues: list[Any], letters: str, keyed: Sequence[str]
) -> Iterator[Finding]:
    """Check Redis as the app's broker; `connection` is connected.

    Arguments:
        letters: the queue of dead letters.
        keyed: queues that are shared by key.
    """
    channel = connection.default_channel
    told = _told(channel.client)
    yield ok("broker", f"Redis {told.get('redis_version', '')} at {shown(connection)}")
    burying = Queue(letters, Exchange(letters, type="fanout"))
    user = connection.userid or "default"
    yield from _rights(channel, user, [*queues, burying], keyed)
    yield from server_findings("broker", channel.client)
    yield from _limits(told)
    options = app.conf.broker_transport_options or {}
    yield visibility(app, float(options.get("visibility_timeout", _DEFAULT_VISIBILITY)))
    send = Commands(channel)
    for queue in queues:
        if (size := _size(send, queue.name)) is not None:
            yield ok(f"queue {queue.name}", f"{size} messages")
    if (size := _size(send, letters)) is not None:
        yield dead_letters(size, letters)


def _size(send: Commands, queue: str) -> int | None:
    """Messages of a queue; None if its user may not know."""
    from redis.exceptions import NoPermissionError

    try:  # one by one: a server that is full refuses transactions
        return sum(int(send("LLEN", key)) for key in send.lists(queue))
    except NoPermissionError:
        return None


def _told(client: Any) -> dict[str, Any]:
    """What a Redis says of itself; nothing if its user may not know."""
    from redis.exceptions import NoPermissionError

    try:
        return {
            name: value
            for section in ("server", "clients", "persistence", "memory")
            for name, value in client.info(section).items()
        }
    except NoPermissionError:
        return {}


def _limits(told: Mapping[str, Any]) -> Iterator[Finding]:
    """A worker has a handful of connections, and one more for each thread or process that asks."""
    most, now = told.get("maxclients"), told.get("connected_clients", 0)
    if most and now > _CROWDED * most:
        yield weak(
            "broker: connections",
            f"{now} of at most {most} clients are connected; beyond, workers and publishers are"
            " refused",
            "redis-cli config set maxclients …, and in redis.conf",
        )


def server_findings(topic: str, client: Any) -> Iterator[Finding]:
    """Check what a Redis keeps over a restart, and when it is full."""
    told = _told(client)
    if not told:
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


def _rights(channel: Any, user: str, queues: Sequence[Any], keyed: Sequence[str]) -> list[Finding]:
    """Say what its user may not do of what workers do; of none, that it may.

    Arguments:
        channel: of kombu's Redis transport.
        queues: what is consumed, and the dead letters, each with its exchange.
        keyed: names of those that are shared by key.
    """
    send = Commands(channel)
    asked = list(_working(channel, send, queues, keyed))
    answers = zip(asked, send.refused(asked), strict=True)
    refused = [(" ".join(map(str, command)), why) for command, why in answers if why]
    found = []
    if refused:
        shown = "; ".join(f"{command} ({why})" for command, why in refused[:_SHOWN])
        more = f"; and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
        found.append(
            wrong(
                _RIGHTS,
                f"user {user!r} may not do what workers do: {shown}{more}",
                f"redis-cli ACL SETUSER {user} …, as under Rights on RabbitMQ and Redis; what was"
                " refused to whom, redis-cli ACL LOG says",
            )
        )
    lacks = next(filter(None, send.refused([("CLIENT", "TRACKING", "ON")])), None)
    if lacks:
        found.append(
            weak(
                "broker: waking",
                f"user {user!r} may not be told of new messages ({lacks}): an idle worker looks at"
                " its queues every 50 ms instead of being woken, which costs it and Redis some of a"
                " processor",
                f"redis-cli ACL SETUSER {user} '+client|tracking'",
            )
        )
    return found or [ok(_RIGHTS, f"user {user!r} may do what workers do")]


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
