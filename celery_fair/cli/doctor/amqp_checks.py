"""What a live RabbitMQ says."""

from collections.abc import Iterator
from typing import Any

from amqp import AccessRefused, NotFound, PreconditionFailed

from celery_fair.cli.doctor.findings import Finding, ok, weak, wrong

__all__ = ["amqp_findings"]

_QUORUM = {"x-queue-type": "quorum"}
_OLDEST = (3, 8)


def amqp_findings(
    connection: Any, queues: list[Any], dead_letters: str, once: bool
) -> Iterator[Finding]:
    """Check the broker and its queues.

    Arguments:
        connection: connected.
        queues: those that workers consume.
        dead_letters: the queue of dead letters.
        once: whether there are non-repeatable tasks.
    """
    yield _server(connection)
    for queue in queues:
        yield _queue(connection, queue, once)
    yield _dead_letters(connection, dead_letters)


def _server(connection: Any) -> Finding:
    properties = connection.connection.server_properties
    product, version = properties.get("product", "a broker"), properties.get("version", "")
    text = f"{product} {version} at {connection.as_uri()}"
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if product == "RabbitMQ" and numbers < _OLDEST:
        return weak("broker", f"{text} has no quorum queues", "a RabbitMQ that is maintained")
    return ok("broker", text)


def _queue(connection: Any, queue: Any, once: bool) -> Finding:
    topic = f"queue {queue.name}"
    with connection.channel() as channel:
        try:
            found = channel.queue_declare(queue.name, passive=True)
        except NotFound:
            return ok(topic, "is not there yet; the first worker declares it")
        except AccessRefused as exc:
            return wrong(topic, f"may not be used: {exc}", "rabbitmqctl set_permissions …")
        except Exception as exc:  # noqa: BLE001 - an exclusive queue, for one: said as it is
            return weak(topic, f"cannot be looked at: {exc}", "try again when it is free")
    kind = _kind(connection, queue)
    text = f"{kind} queue, {found.message_count} messages, {found.consumer_count} consumers"
    if kind == "classic" and once:
        return weak(
            topic,
            f"{text}: when the broker crashes, its whole backlog counts as delivered, and"
            " non-repeatable tasks in it are dead-lettered; and it is on one node",
            "a quorum queue: app.conf.task_default_queue_type = 'quorum', or Queue(…,"
            " queue_arguments={'x-queue-type': 'quorum'}); under a new name, or when it is empty"
            " and deleted",
        )
    return ok(topic, text)


def _kind(connection: Any, queue: Any) -> str:
    """A queue that is declared again must be declared alike: the answer tells what it is."""
    arguments = {**(queue.queue_arguments or {}), **_QUORUM}
    with connection.channel() as channel:
        try:
            channel.queue_declare(queue.name, durable=True, auto_delete=False, arguments=arguments)
        except PreconditionFailed as exc:
            return "classic" if "x-queue-type" in str(exc) else "some kind of"
        except Exception:  # noqa: BLE001 - it may not be declared: what it is remains open
            return "some kind of"
    return "quorum"


def _dead_letters(connection: Any, name: str) -> Finding:
    topic = "dead letters"
    with connection.channel() as channel:
        try:
            found = channel.queue_declare(name, passive=True)
        except NotFound:
            return ok(topic, f"queue {name} is not there yet; it is declared for the first one")
        except AccessRefused as exc:
            return wrong(topic, f"queue {name}: {exc}", "rabbitmqctl set_permissions …")
    if found.message_count:
        return weak(
            topic,
            f"{found.message_count} wait in queue {name}",
            "celery -A … fair dead-letters list",
        )
    return ok(topic, f"none in queue {name}")
