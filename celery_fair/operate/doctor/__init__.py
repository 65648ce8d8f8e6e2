"""What holds for an app, and what weakens its promises.

::

    findings.py       one line of the report
    app_checks.py     what the app says: settings, tasks, versions
    amqp_checks.py    what a live RabbitMQ says
    redis_checks.py   what a live Redis says, as broker or as ledger
    sqs_checks.py     what SQS says
    holding.py        for how long brokers let a message be held
    store_checks.py   what the ledger says, and the stores of keys and of groups
    stranded.py       what waits where no worker looks any more
    worker_checks.py  what the workers say that run now

Nothing is changed but for a claim in the ledger, which is given up, and a queue of the doctor's
own, which is deleted; with partitions, a Redis that has no name yet is given one.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from celery.exceptions import ImproperlyConfigured

from celery_fair.brokers.broker import (
    AmqpBroker,
    MemoryBroker,
    RedisBroker,
    SqsBroker,
    broker_of,
    letters_of,
    refuse_broker,
    shown,
)
from celery_fair.operate.broker import connection_to, trouble_with
from celery_fair.operate.doctor.amqp_checks import amqp_findings
from celery_fair.operate.doctor.app_checks import app_findings
from celery_fair.operate.doctor.findings import Finding, ok, weak, wrong
from celery_fair.operate.doctor.redis_checks import redis_findings
from celery_fair.operate.doctor.sqs_checks import sqs_findings
from celery_fair.operate.doctor.store_checks import group_finding, key_findings, ledger_findings
from celery_fair.operate.doctor.stranded import stranded
from celery_fair.operate.doctor.worker_checks import worker_findings
from celery_fair.operate.errors import OperateError
from celery_fair.routing.declared import declare_queues
from celery_fair.settings import Settings
from celery_fair.tasks import non_repeatable
from celery_fair.worker.partitions import store_for

__all__ = ["findings"]

_UNCHECKED = "nothing else about it can be checked"


def findings(app: Any, timeout: float) -> Iterator[Finding]:
    """Examine an app, its live broker, its ledger and stores, and the workers that run.

    Arguments:
        timeout: seconds for which workers' answers are waited for; with 0 none is asked.
    """
    try:
        app.loader.import_default_modules()
        app.finalize(auto=True)
        settings = Settings.of(app)
        declare_queues(app, settings)
    except ImproperlyConfigured as exc:
        yield wrong("settings", str(exc), "correct it; workers do not start like this")
        return
    yield ok("settings", "all have values that are allowed")
    yield from app_findings(app, settings)
    yield from _broker(app, settings, timeout)
    yield from ledger_findings(settings, bool(non_repeatable(app)))


def _broker(app: Any, settings: Settings, timeout: float) -> Iterator[Finding]:
    queues = list(app.amqp.queues)
    try:
        unopened = connection_to(app.connection_for_read)
    except OperateError as exc:
        yield wrong("broker", str(exc), _UNCHECKED)
        return
    with unopened as connection:
        trouble = trouble_with(connection, "broker_url")
        if trouble is not None:
            yield wrong("broker", trouble, _UNCHECKED)
            return
        broker, once = broker_of(connection), non_repeatable(app)
        try:
            refuse_broker(connection, settings, once)
            if settings.partitioned:
                store_for(settings, connection).close()
                yield group_finding(app)
        except ImproperlyConfigured as exc:
            yield wrong("workers", str(exc), "until then, they do not start")
        if isinstance(broker, AmqpBroker):
            yield from amqp_findings(app, connection, settings, bool(once))
        elif isinstance(broker, RedisBroker):
            yield from redis_findings(app, connection, settings)
        elif isinstance(broker, SqsBroker):
            yield from sqs_findings(app, connection)
        elif isinstance(broker, MemoryBroker):
            yield ok("broker", "in this process's memory: for demonstrations and tests")
        else:
            yield weak(
                "broker",
                f"{shown(connection)}: fair workers are not tested with this transport",
                "RabbitMQ, Redis or SQS",
            )
        with suppress(Exception):  # what may not be looked at, others say
            yield _dead_letters(settings.dead_letters, letters_of(app, connection).count())
        yield from key_findings(connection, settings, queues)
        if isinstance(broker, AmqpBroker | RedisBroker):
            yield from stranded(connection, settings, queues)
            yield from worker_findings(app, settings, timeout)


def _dead_letters(name: str, waiting: int) -> Finding:
    if waiting:
        text = f"{waiting} wait in queue {name}"
        return weak("dead letters", text, "celery -A … fair dead-letters list")
    return ok("dead letters", f"none in queue {name}")
