"""A message's way out: Celery's sender, behind the steps of the ``fair_…`` settings.

Celery's sender is the one place that every way of publishing passes: ``apply_async(queue=…)``,
``task_routes``, ``Task.queue``, the default queue, canvas, beat, retries. A message is aimed at a
level (`logical`), at a partition (`partitioned`), says whose it is (`keyed`), and when it was
published. A retry is published to the physical queue that its message came from, and so keeps its
level and its partition. Only a message for which an exchange *and* a routing key were given goes
there instead, as in Celery.
"""

from collections.abc import Callable, Iterator
from time import time
from typing import Any

from celery_fair.headers import LEDGER, PUBLISHED, STRICT
from celery_fair.ledger import fingerprint
from celery_fair.routing.declared import declare_queues
from celery_fair.routing.keyed import keyed
from celery_fair.routing.logical import leveled
from celery_fair.routing.partitioned import partitioned
from celery_fair.routing.publication import Publication, Step
from celery_fair.settings import Settings

_OF_A_DELIVERY = ("redelivered", STRICT)
"""Headers that tell of one message, and of none that is published when its task runs."""


def sender(amqp: Any) -> Callable[..., Any]:
    """Return an app's sender: Celery's, behind all that a message passes first."""
    settings = Settings.of(amqp.app)
    declare_queues(amqp.app, settings)  # an app that only publishes may not be finalized
    send, steps = amqp._create_task_sender(), list(_steps(amqp, settings))

    def send_task_message(
        producer: Any,
        name: str,
        message: Any,
        exchange: Any = None,
        routing_key: Any = None,
        queue: Any = None,
        **options: Any,
    ) -> Any:
        this = Publication(amqp, producer, name, message, exchange, routing_key, queue, options)
        for step in steps:
            step(this)
        aim = {"exchange": this.exchange, "routing_key": this.routing_key, "queue": this.queue}
        return send(producer, name, message, **aim, **options)

    return send_task_message


def _steps(amqp: Any, settings: Settings) -> Iterator[Step]:
    if settings.logical_queues:
        yield leveled(settings.logical_queues)
    if settings.partitioned:
        yield partitioned(amqp, settings.partitioned)
    yield keyed(amqp, settings.keys)
    yield _stamped(settings.ledger)


def _stamped(ledger: str | None) -> Step:
    """Return the step that says when a message was published, and which ledger claims its work."""
    stamps = {} if ledger is None else {LEDGER: fingerprint(ledger)}

    def stamp(this: Publication) -> None:
        given = this.options.get("headers") or {}  # a retry takes along what it does not know
        this.options["headers"] = {k: v for k, v in given.items() if k not in _OF_A_DELIVERY}
        this.message.headers.update(stamps, **{PUBLISHED: time()})

    return stamp
