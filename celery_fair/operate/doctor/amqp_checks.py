"""What a live RabbitMQ says, and what it lets the app's user do: asked so that nothing is changed.

RabbitMQ looks at rights first: what is wrong otherwise with a question is the answer that there is
the right to ask it. So a queue is declared, and consumed, with an argument that cannot be; and what
is published is for nobody.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from uuid import uuid4

from amqp import AccessRefused, ChannelError, NotFound, PreconditionFailed
from kombu import Exchange

from celery_fair.brokers.broker import shown
from celery_fair.operate.doctor.findings import Finding, dead_letters, ok, weak, wrong
from celery_fair.operate.doctor.holding import version_of

_QUORUM = {"x-queue-type": "quorum"}
_OTHER_CHANNELS = 8
"""What a worker, and Celery, have channels for besides queues."""

_NEEDED = {
    "configure": "workers and publishers declare it",
    "read": "workers consume it",
    "write": "publishers, and workers for retries and results, publish to its exchange",
}

_TIMEOUT = 3.0
"""Seconds for the broker to take a message."""

_LIMITS_SINCE, _USUAL_LIMIT = (4, 0), 20
"""Since when RabbitMQ limits the deliveries of quorum queues, and to how many returns."""


def amqp_findings(
    connection: Any, queues: list[Any], letters: str, non_repeatable: bool
) -> Iterator[Finding]:
    """Check the broker and its queues.

    Arguments:
        connection: connected.
        queues: those that workers consume.
        letters: the queue of dead letters.
        non_repeatable: whether the app has such tasks.
    """
    product, version, _ = version_of(connection)
    yield ok("broker", f"{product} {version} at {shown(connection)}")
    yield from _limits(connection, len(queues))
    for queue in queues:
        lacks = _rights(connection, queue.name, queue.exchange, queue.no_declare)
        yield lacks or _queue(connection, queue, non_repeatable)
    letter_exchange = Exchange(letters, type="fanout")
    yield _rights(connection, letters, letter_exchange) or _dead_letters(connection, letters)


def _limits(connection: Any, queues: int) -> Iterator[Finding]:
    most = int(connection.connection.channel_max)
    if most and queues + _OTHER_CHANNELS > most:
        yield weak(
            "broker: channels",
            f"a connection may have {most}, and a worker has one for each of its {queues} queues:"
            " beyond, queues share one",
            "channel_max in rabbitmq.conf; or workers with fewer queues (-Q)",
        )


def _rights(connection: Any, queue: str, exchange: Any, no_declare: bool = False) -> Finding | None:
    """Return what the user may not do, None if all that workers and publishers do."""
    try:
        lacks = _missing_rights(connection, queue, exchange)
    except TimeoutError:
        return wrong(
            f"queue {queue}",
            "the broker takes no message for it: is there a memory or disk alarm?",
            "rabbitmq-diagnostics alarms",
        )
    if no_declare and "configure" in lacks:
        lacks.remove("configure")
    if not lacks:
        return None
    does = ", ".join(f"{right} ({_NEEDED[right]})" for right in lacks)
    user, vhost = connection.userid, connection.virtual_host
    return wrong(
        f"queue {queue}",
        f"user {user!r} has no right to {does}; its exchange is {exchange.name or 'the default'!r}",
        f"rabbitmqctl set_permissions -p {vhost} {user} CONFIGURE WRITE READ, each a pattern that"
        " matches the names of queues and exchanges (the default one is amq.default)",
    )


def _queue(connection: Any, queue: Any, non_repeatable: bool) -> Finding:
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
    if kind == "classic" and non_repeatable:
        return weak(
            topic,
            f"{text}: when the broker crashes, its whole backlog counts as delivered, and"
            " non-repeatable tasks in it are dead-lettered; and it is on one node",
            "a quorum queue: app.conf.task_default_queue_type = 'quorum', or Queue(…,"
            " queue_arguments={'x-queue-type': 'quorum'}); under a new name, or when it is empty"
            " and deleted",
        )
    limit = _delivery_limit(connection, queue) if kind == "quorum" else None
    if limit is not None:
        return weak(
            topic,
            f"{text}: unless a policy says otherwise, a message that lost connections and killed"
            f" workers have returned more than {limit} times is dropped without a word",
            "a dead-letter exchange for it: Queue(…, queue_arguments={'x-dead-letter-exchange': …})"
            " or a policy with one",
        )
    return ok(topic, text)


def _delivery_limit(connection: Any, queue: Any) -> int | None:
    """How often a message may be returned before it is dropped; None if none is, as far as told."""
    arguments = queue.queue_arguments or {}
    product, _, numbers = version_of(connection)
    usual = _USUAL_LIMIT if product == "RabbitMQ" and numbers >= _LIMITS_SINCE else -1
    limit = int(arguments.get("x-delivery-limit", usual))
    return None if limit < 0 or "x-dead-letter-exchange" in arguments else limit


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
    return dead_letters(found.message_count, name)


def _missing_rights(connection: Any, queue: Any, exchange: Exchange) -> list[str]:
    """Return which of "configure", "read" and "write" the user lacks, for a queue and its exchange.

    Arguments:
        connection: connected.
        queue: its name.
        exchange: by which it is published to.

    Raises:
        TimeoutError: the broker takes no message.
    """
    lacks = [
        *_refused(connection, "configure", partial(_declare, queue=queue)),
        *_refused(connection, "read", partial(_consume, queue=queue)),
    ]
    # From one that publishes under an alarm the broker reads nothing more.
    publishing = connection.clone(heartbeat=0)
    try:
        lacks += _refused(publishing, "write", partial(_publish, exchange=exchange))
    except Exception:  # whatever it is, nothing is waited for; raised again
        publishing.collect()
        raise
    publishing.release()
    return lacks


def _refused(connection: Any, right: str, ask: Callable[[Any], Any]) -> list[str]:
    channel = connection.channel()
    try:
        ask(channel)
    except AccessRefused:
        return [right]
    except ChannelError:  # about the question, which was permitted
        return []
    channel.close()
    return []


def _declare(channel: Any, queue: str) -> None:
    no_time = {"x-message-ttl": "no time"}
    channel.queue_declare(queue, durable=True, auto_delete=False, arguments=no_time)


def _consume(channel: Any, queue: str) -> None:
    channel.basic_consume(queue, arguments={"x-priority": "none"})


def _publish(channel: Any, exchange: Exchange) -> None:
    """To nobody: by a key that nobody has, and as a user who this one is not."""
    channel.confirm_select()
    nothing = channel.prepare_message(
        b"", properties={"user_id": "celery-fair doctor", "expiration": "0"}
    )
    channel.basic_publish_confirm(
        nothing,
        exchange=exchange.name,
        routing_key=f"celery-fair-doctor-{uuid4()}",
        confirm_timeout=_TIMEOUT,
    )
