"""The keys (tenants) of a queue of ``fair_keys``: who waits, why, and what each may.

::

    keys.py        what can be asked and done, whatever the broker
    on_redis.py    the broker keeps the keys' lists and tags itself
    on_rabbitmq.py the keys' lanes, and what is done with them
    of_workers.py  what workers know of whom lanes are, where the broker does not
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

from celery.exceptions import ImproperlyConfigured

from celery_fair.brokers.broker import broker_of, shown
from celery_fair.core.keys.fair_key import read_key
from celery_fair.operate.broker import connected
from celery_fair.operate.errors import InvalidRequestError, OperateError
from celery_fair.operate.keys.keys import Keys, Listing
from celery_fair.operate.keys.on_rabbitmq import RabbitMQKeys
from celery_fair.operate.keys.on_redis import RedisKeys
from celery_fair.operate.text import assignments
from celery_fair.routing.declared import queues_of
from celery_fair.settings import KeyedQueue, Settings, live_key_options


@contextmanager
def opened(app: Any, queue: str, was_shared: bool = False) -> Iterator[Keys]:
    """Give a queue's keys, connected for as long as the context lasts.

    Arguments:
        was_shared: it may be any queue, as it may have been shared by key before.

    Raises:
        InvalidRequestError: the queue is not shared by key.
        OperateError: there is no connection, it is lost, or the broker shares no queues by key.
        celery.exceptions.ImproperlyConfigured: the settings are wrong.
    """
    settings = Settings.of(app)
    if was_shared and queue not in settings.keys:
        settings = replace(settings, keys={**settings.keys, queue: KeyedQueue(queue)})
    if queue not in settings.keys:
        there = ", ".join(sorted(settings.keys)) or "none"
        raise InvalidRequestError(f"{queue!r} is no queue of fair_keys; there are: {there}")
    with connected(app) as connection:
        broker = broker_of(connection)
        if not broker.shares_by_key:
            raise OperateError(
                f"queues are shared by key on RabbitMQ and Redis, not on {shown(connection)}"
            )
        kind = RabbitMQKeys if broker.has_lanes else RedisKeys
        with closing(kind(app, settings, connection, queue)) as keys:
            yield keys


def waiting_by_key(app: Any) -> list[str]:
    """Return those of an app's queues of which messages wait by key.

    Raises:
        OperateError: there is no connection, or it is lost.
        celery.exceptions.ImproperlyConfigured: the settings are wrong.
    """
    queues = sorted({*Settings.of(app).keys, *queues_of(app)})
    with connected(app) as connection:
        return list(broker_of(connection).by_key(connection.default_channel, queues))


def watched(app: Any, queue: str, top: int) -> Iterator[Listing]:
    """Yield what `Keys.listing` returns, again and again, on one connection."""
    with opened(app, queue) as keys:
        while True:
            yield keys.listing(top)


def whole_tenant(key: str, reason: str) -> str:
    """Return the tenant that a key is, as it is written in the header.

    Raises:
        InvalidRequestError: it is a part of one; and the reason why that will not do.
    """
    tenant, part = read_key(key)
    if part:
        raise InvalidRequestError(f"{key!r} is a part of {tenant!r}; {reason}")
    return tenant


def live_options(queue: str, words: Sequence[str]) -> dict[str, Any]:
    """Return options of a key, which are written ``name=value``.

    Raises:
        InvalidRequestError: they cannot be.
    """
    try:
        return live_key_options(queue, assignments(words, "weight=5 or rate=10/s"))
    except ImproperlyConfigured as exc:
        raise InvalidRequestError(str(exc)) from None
