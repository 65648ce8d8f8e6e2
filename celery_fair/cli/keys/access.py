"""The queues of ``fair_keys`` of the app that a command was given."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import wraps
from typing import Any, NamedTuple

import click
from celery.exceptions import ImproperlyConfigured

from celery_fair.brokers.broker import broker_of, shown
from celery_fair.brokers.keyed.lists import Backlog, KeyedLists
from celery_fair.brokers.keyed.store import KeyStore
from celery_fair.brokers.redis import Commands
from celery_fair.cli.options import app_of
from celery_fair.core.fair_key import read_key
from celery_fair.operate.broker import connection_to, trouble_with
from celery_fair.operate.errors import InvalidRequestError, OperateError
from celery_fair.operate.text import escaped
from celery_fair.settings import Settings

__all__ = [
    "Access",
    "access_to",
    "connected",
    "key_argument",
    "lists_on",
    "refuse_idle_burst",
    "rules_of",
    "shown_key",
    "store_asked",
    "whole_tenant",
]


def key_argument(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command the argument KEY, or --no-key in its place; call it with `key`.

    It is "" for messages that have no key. An empty KEY does not mean them, as an empty text is
    what a variable of the shell is that was not set; and any text may be somebody's key.
    """

    @click.argument("key", required=False)
    @click.option("--no-key", is_flag=True, help="Mean messages that have no key, in place of KEY.")
    @wraps(command)
    def asked(*args: Any, key: str | None, no_key: bool, **given: Any) -> object:
        if no_key and key is not None and "options" in given:  # which come after KEY
            key, given["options"] = None, (key, *given["options"])
        return command(*args, key=_meant(key, no_key), **given)

    return asked


def _meant(key: str | None, no_key: bool) -> str:
    if no_key:
        if key is not None:
            raise click.UsageError(
                f"--no-key means messages that have no key, and takes no KEY: leave {key!r} out"
            )
        return ""
    if key is None:
        raise click.MissingParameter(param_type="argument", param_hint="'KEY'")
    tenant, slash, part = key.partition("/")
    if not tenant or (slash and not part):
        raise click.UsageError(
            f"KEY is {key!r}, in which a name is empty, as a variable is that is not set; a whole"
            " tenant is written without the slash, and messages that have no key are --no-key"
        )
    return key


def shown_key(key: str) -> str:
    """Return a key for a sentence."""
    return escaped(key) or "(no key)"


def whole_tenant(key: str, why: str) -> str:
    """Return the tenant that a key is, as it is written in the header.

    Raises:
        InvalidRequestError: it is a part of one.
    """
    tenant, part = read_key(key)
    if part:
        raise InvalidRequestError(f"{key!r} is a part of {tenant!r}; {why}")
    return tenant


def refuse_idle_burst(queue: str, found: Backlog, options: Mapping[str, Any]) -> None:
    """Raise if options of a key would have a burst and no rate, of which that is a part.

    Arguments:
        found: what the key has now.

    Raises:
        InvalidRequestError: saying what to do.
    """
    if "burst" in options and options.get("rate", found.limits.rate) is None:
        raise InvalidRequestError(
            f"{shown_key(found.tenant)} has no rate in {queue}, and 'burst' means nothing without:"
            " set both, such as rate=10/s burst=5"
        )


class Access(NamedTuple):
    """To a queue's lists.

    Attributes:
        dead_letters: the app's queue of them, and its exchange.
        channel: kombu's.
    """

    lists: KeyedLists
    dead_letters: str
    channel: Any


@contextmanager
def access_to(ctx: click.Context, queue: str) -> Iterator[Access]:
    """Connect to the app's broker for as long as the context lasts.

    Raises:
        OperateError: as `connected`, and on a broker that does not keep the keys' tags.
        InvalidRequestError: the queue is not shared by key.
    """
    with connected(ctx, queue) as (_, settings, connection):
        if not broker_of(connection).keeps_tags:
            raise OperateError(
                f"on this broker, {shown(connection)}, messages of all keys are in the queue and"
                " its lanes, and those of one cannot be told from the others. `fair pause-key`"
                " keeps them from starting, if there is a fair_key_store"
            )
        channel = connection.default_channel
        yield Access(lists_on(connection, settings, queue), settings.dead_letters, channel)


@contextmanager
def rules_of(ctx: click.Context, queue: str) -> Iterator[tuple[KeyedLists, bool]]:
    """Connect to what says what keys may: the broker, or the store; and say whether it is that.

    Raises:
        OperateError: as `connected`, and if neither keeps that.
        InvalidRequestError: the queue is not shared by key.
    """
    with connected(ctx, queue) as (_, settings, connection):
        if broker_of(connection).keeps_tags:
            yield lists_on(connection, settings, queue), False
            return
        if settings.key_store is None:
            raise OperateError(
                f"on this broker, {shown(connection)}, each worker keeps the keys' tags itself, and"
                " there is nothing to be asked or told without a store: set fair_key_store ="
                " 'redis://…', or what keys have in fair_keys, and start the workers again."
                " `fair keys` shows what waits"
            )
        try:
            store = KeyStore(settings.key_store)
        except ImproperlyConfigured as exc:
            raise OperateError(str(exc)) from exc
        with closing(store), store_asked():
            yield store.lists(settings.keys[queue]), True


@contextmanager
def store_asked() -> Iterator[None]:
    """Say it if the store of keys does not answer.

    Raises:
        OperateError: it does not.
    """
    try:
        yield
    except ImproperlyConfigured as exc:
        raise OperateError(str(exc)) from exc
    except Exception as exc:
        from redis.exceptions import RedisError

        if not isinstance(exc, RedisError | OSError):
            raise
        raise OperateError(f"fair_key_store: {exc}") from exc


def lists_on(connection: Any, settings: Settings, queue: str) -> KeyedLists:
    """Return a queue's lists, on a connection to a broker that keeps them."""
    channel = connection.default_channel
    return KeyedLists(channel, Commands(channel), settings.keys[queue])


@contextmanager
def connected(ctx: click.Context, queue: str) -> Iterator[tuple[Any, Settings, Any]]:
    """Connect to the app's broker for as long as the context lasts: app, settings, connection.

    Raises:
        OperateError: without an app, a connection, or settings that are right; or if the
            connection is lost.
        InvalidRequestError: the queue is not shared by key.
    """
    app = app_of(ctx)
    try:
        settings = Settings.of(app)
    except ImproperlyConfigured as exc:
        raise OperateError(str(exc)) from exc
    keyed = settings.keys
    if queue not in keyed:
        there = ", ".join(sorted(keyed)) or "none"
        raise InvalidRequestError(f"{queue!r} is no queue of fair_keys; there are: {there}")
    with connection_to(app.connection_for_write) as connection:
        trouble = trouble_with(connection)
        if trouble is not None:
            raise OperateError(trouble)
        if not broker_of(connection).shares_by_key:
            raise OperateError(
                f"queues are shared by key on RabbitMQ and Redis, not on {shown(connection)}"
            )
        try:
            yield app, settings, connection
        except connection.connection_errors as exc:
            raise OperateError(
                f"the broker {shown(connection)} ended the connection:"
                f" {str(exc) or type(exc).__name__}"
            ) from exc
