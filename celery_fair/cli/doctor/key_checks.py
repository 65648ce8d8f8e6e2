"""What holds for queues that are shared by key."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from amqp import AccessRefused
from celery.exceptions import ImproperlyConfigured

from celery_fair.brokers.broker import AmqpBroker, Broker
from celery_fair.brokers.keyed.store import KeyStore
from celery_fair.brokers.lanes import register
from celery_fair.cli.doctor.findings import Finding, ok, weak, wrong
from celery_fair.settings import KeyedQueue, Settings

__all__ = ["key_findings"]


def key_findings(connection: Any, broker: Broker, settings: Settings) -> Iterator[Finding]:
    """Check the queues of ``fair_keys``.

    Arguments:
        connection: connected, to the app's broker.
    """
    for name in settings.keys:
        if isinstance(broker, AmqpBroker):
            yield _lanes(connection, name)
    if settings.keys and not broker.keeps_tags and broker.shares_by_key:
        yield _store(settings)


def _lanes(connection: Any, name: str) -> Finding:
    topic, lanes = f"keys of {name}", f"{register(name)}.…"
    with connection.channel() as channel:
        try:  # gone with this channel's connection
            channel.queue_declare(f"{register(name)}.doctor", exclusive=True, auto_delete=True)
            channel.queue_delete(f"{register(name)}.doctor")
        except AccessRefused as exc:
            return weak(
                topic,
                f"no lane can be added for a key that publishes in floods: {exc}",
                f"rabbitmqctl set_permissions …, to configure, write and read {lanes}",
            )
        except Exception as exc:  # noqa: BLE001 - said as it is
            return weak(topic, f"lanes cannot be looked at: {exc}", "try again")
    return ok(topic, f"may have lanes, {lanes}")


def _store(settings: Settings) -> Finding:
    topic = "fair_key_store"
    if settings.key_store is None:
        return weak(
            topic,
            "none: each worker keeps the keys' tags itself; keys can have no caps and leashes, and"
            " nothing can be set for them, or paused, while workers run",
            "fair_key_store = 'redis://…'",
        )
    keyed: KeyedQueue = next(iter(settings.keys.values()))
    try:
        with closing(KeyStore(settings.key_store)) as store:
            store.lists(keyed).look()
    except ImproperlyConfigured as exc:
        return wrong(topic, str(exc), "correct it")
    except Exception as exc:  # noqa: BLE001 - of whatever client or server
        return wrong(
            topic,
            f"does not answer ({exc}): keys that have a cap, a leash or a pause start nothing",
            "start it, or correct fair_key_store",
        )
    return ok(topic, "answers: it counts what keys run, and keeps what is set live")
