"""What Redis lets the app's user do: asked by commands that are refused, or discarded."""

from collections.abc import Iterator, Sequence
from typing import Any

from celery_fair.brokers.keyed.lists import base_of
from celery_fair.brokers.redis import Commands
from celery_fair.cli.doctor.findings import Finding, ok, weak, wrong

__all__ = ["right_findings"]

_TOPIC = "broker: rights"
_SHOWN = 5

Asked = tuple[Any, ...]


def right_findings(
    channel: Any, user: str, queues: Sequence[Any], keyed: Sequence[str]
) -> list[Finding]:
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
                _TOPIC,
                f"user {user!r} may not do what workers do: {shown}{more}",
                f"redis-cli ACL SETUSER {user} …, as under Rights on RabbitMQ and Redis; what was"
                " refused to whom, redis-cli ACL LOG says",
            )
        )
    lacks = next(filter(None, send.refused([("CLIENT", "ID"), ("CLIENT", "UNBLOCK", 0)])), None)
    if lacks:
        found.append(
            weak(
                "broker: waking",
                f"user {user!r} may not end a wait for messages ({lacks}): an idle worker looks at"
                " its queues every 50 ms instead of being woken, which costs it and Redis some of a"
                " processor",
                f"redis-cli ACL SETUSER {user} '+client|id' '+client|unblock'",
            )
        )
    return found or [ok(_TOPIC, f"user {user!r} may do what workers do")]


def _working(
    channel: Any, send: Commands, queues: Sequence[Any], keyed: Sequence[str]
) -> Iterator[Asked]:
    """Yield what a worker, and its publishers, send; each with the keys that it is about."""
    held, index = send.unacked
    for queue in queues:
        lists = send.lists(queue.name)
        yield ("BRPOP", *lists, 1)
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
