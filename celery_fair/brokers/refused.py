"""Of the brokers that kombu has a transport for, which one a fair worker may consume.

What a transport promises, and how it says that a message was delivered before, differs by the
transport. So those are let through that this library's tests run on, as far as they run there; the
others are refused by name, before anything is consumed.

=========== ====================== ======================================================
RabbitMQ    ``amqp://``            all
Redis       ``redis://``           all; with TLS and Sentinel too
SQS         ``sqs://``             no partitions; non-repeatable tasks with a ledger alone
memory      ``memory://``          within a process: for demonstrations and tests
=========== ====================== ======================================================
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from celery.exceptions import ImproperlyConfigured

from celery_fair.brokers.broker import (
    AmqpBroker,
    Broker,
    MemoryBroker,
    RedisBroker,
    SqsBroker,
    broker_of,
)
from celery_fair.settings import Settings

__all__ = ["NO_CLIENT", "missing_client", "refuse_broker", "refuse_without_client"]

NO_CLIENT = (ImportError, NameError, AttributeError, RuntimeError)
"""What kombu's transports raise, each as it is written, if their clients are not installed."""

_TESTED = (AmqpBroker, RedisBroker, SqsBroker, MemoryBroker)
_UNTESTED_DRIVERS = frozenset({"librabbitmq"})
_SETTING = "fair_allow_untested_transport"


def refuse_broker(
    connection: Any, settings: Settings, once: Sequence[str], loop: bool = True
) -> None:
    """Raise unless fair workers may consume from a broker as these settings and tasks say.

    Arguments:
        connection: kombu's, to the broker.
        once: the names of the app's non-repeatable tasks.
        loop: whether the worker has an event loop: not with gevent and eventlet.

    Raises:
        celery.exceptions.ImproperlyConfigured: saying what to do.
    """
    broker = broker_of(connection)
    if not settings.allow_untested_transport:
        _refuse_untested(broker, connection.transport.driver_name, settings, once, loop)
    for name, options in settings.queues.items():
        if options.exclusive and not broker.excludes:
            raise ImproperlyConfigured(
                f"fair_queues[{name!r}]['exclusive']: this broker ({broker.driver}) cannot keep"
                " other workers from a queue; RabbitMQ can. Leave 'exclusive' out"
            )
    if settings.keys and not broker.shares_by_key:
        raise ImproperlyConfigured(
            f"fair_keys[{next(iter(settings.keys))!r}]: queues are shared by key on RabbitMQ and"
            f" Redis, not on this broker ({broker.driver}). Leave fair_keys out of the workers'"
            " settings; publishers can name keys all the same"
        )
    for name, keyed in settings.keys.items():
        if keyed.is_limited and not broker.keeps_tags and settings.key_store is None:
            raise ImproperlyConfigured(
                f"fair_keys[{name!r}]: this broker ({broker.driver}) does not keep count of what a"
                " key runs in all workers together; a Redis does. Set fair_key_store ="
                " 'redis://…', or leave 'max_in_flight' and 'rate' out. For the queue, set"
                f" fair_queues[{name!r}]"
            )


def refuse_without_client(app: Any) -> None:
    """Raise unless the client that kombu needs for the app's broker is installed.

    Raises:
        celery.exceptions.ImproperlyConfigured: saying what to do.
    """
    try:
        if isinstance(broker_of(app.connection_for_read()), SqsBroker):
            import_module("boto3")  # which kombu looks for when it connects
    except NO_CLIENT as exc:
        raise ImproperlyConfigured(missing_client("broker_url", exc)) from exc


def missing_client(where: str, what: object) -> str:
    """Return what is missing for a URL, and what to do."""
    return (
        f"{where}: the client library that kombu needs there is not installed ({what}). Redis's:"
        " pip install 'celery-fair[redis]'; SQS's: pip install 'celery-fair[sqs]'; RabbitMQ"
        " (amqp://) needs none. Fair workers are tested with no other broker"
    )


def _refuse_untested(
    broker: Broker, name: str, settings: Settings, once: Sequence[str], loop: bool
) -> None:
    if not isinstance(broker, _TESTED) or name in _UNTESTED_DRIVERS:
        raise ImproperlyConfigured(
            f"broker_url: fair workers are not tested with kombu's transport"
            f" {name!r}. Use RabbitMQ (amqp://), Redis (redis://) or SQS (sqs://);"
            f" or set {_SETTING} = True, and see for yourself what holds: shares may not, and"
            f" non-repeatable tasks may start twice"
        )
    if isinstance(broker, SqsBroker):
        _refuse_on_sqs(settings, once, loop)


def _refuse_on_sqs(settings: Settings, once: Sequence[str], loop: bool) -> None:
    if once and settings.ledger is None:
        raise ImproperlyConfigured(
            f"broker_url: SQS gives a message to another worker when its visibility timeout is"
            f" over, and now and then without, so that non-repeatable tasks ({', '.join(once)})"
            f" need a ledger there. Set fair_ledger = 'redis://…' or 'postgresql+psycopg://…', or"
            f" have them on RabbitMQ or Redis"
        )
    if settings.partitioned:
        raise ImproperlyConfigured(
            f"fair_partitions[{next(iter(settings.partitioned))!r}]: SQS keeps no order, and other"
            f" workers from no queue. Use RabbitMQ or Redis, or set {_SETTING} = True"
        )
    if not loop:
        raise ImproperlyConfigured(
            f"broker_url: with SQS, fair workers are not tested with gevent, eventlet, or without"
            f" an event loop. Start the worker with --pool prefork, threads or solo, or set"
            f" {_SETTING} = True"
        )
