"""What a live RabbitMQ says, and what it lets the app's user do: asked so that nothing is changed.

RabbitMQ looks at rights first: what is wrong otherwise with a question is the answer that there is
the right to ask it. So a queue is declared, and consumed, with an argument that cannot be; and what
is published is for nobody.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any
from uuid import uuid4

from amqp import AccessRefused, ChannelError, NotFound, PreconditionFailed
from kombu import Exchange

from celery_fair.brokers.broker import broker_of, shown
from celery_fair.brokers.lanes import register
from celery_fair.operate.doctor.findings import Finding, ok, weak, wrong
from celery_fair.operate.doctor.holding import consumer_timeout
from celery_fair.settings import Settings

_TIMEOUT = 3.0
"""Seconds for the broker to take a message."""

_USUAL_LIMIT = 20
"""How often a RabbitMQ, since 4.0, lets a message of a quorum queue be returned."""


def amqp_findings(
    app: Any, connection: Any, settings: Settings, non_repeatable: bool
) -> Iterator[Finding]:
    """Check the broker and its queues.

    Arguments:
        connection: connected.
        non_repeatable: whether the app has such tasks.
    """
    server = connection.connection.server_properties
    product, version = server.get("product", "a broker"), str(server.get("version", ""))
    yield ok("broker", f"{product} {version} at {shown(connection)}")
    usual_limit = _USUAL_LIMIT if product == "RabbitMQ" and not version.startswith("3.") else -1
    queues = list(app.amqp.queues.values())
    for queue in queues:
        topic = f"queue {queue.name}"
        lacks = _rights(connection, topic, queue.name, queue.exchange, queue.no_declare)
        yield lacks or _queue(connection, queue, non_repeatable, usual_limit, settings.keys)
    letters = settings.dead_letters
    if lacks := _rights(connection, f"queue {letters}", letters, Exchange(letters)):
        yield lacks
    for name in settings.keys:
        topic, lane = f"keys of {name}", f"{register(name)}.doctor"
        yield _rights(connection, topic, lane, Exchange("")) or ok(topic, "may have lanes")
    if product == "RabbitMQ":
        yield consumer_timeout(app, queues)


_QUESTIONS: dict[str, tuple[str, Callable[[Any, str, str], object]]] = {
    "configure": (
        "workers and publishers declare it",
        lambda channel, queue, _: channel.queue_declare(
            queue, durable=True, auto_delete=False, arguments={"x-message-ttl": "no time"}
        ),
    ),
    "read": (
        "workers consume it",
        lambda channel, queue, _: channel.basic_consume(queue, arguments={"x-priority": "none"}),
    ),
    "write": (
        "publishers, and workers for retries and results, publish to its exchange",
        lambda channel, _, exchange: _publish(channel, exchange),
    ),
}
"""What a right is needed for, and how it is found out."""


def _rights(
    connection: Any, topic: str, queue: str, exchange: Any, no_declare: bool = False
) -> Finding | None:
    """Return what the user may not do, None if all that workers and publishers do."""
    lacks = []
    # From one that publishes under an alarm the broker reads nothing more.
    asking = connection.clone(heartbeat=0)
    try:
        for right, (needed, ask) in _QUESTIONS.items():
            if right == "configure" and no_declare:
                continue
            if _is_refused(asking, ask, queue, exchange):
                lacks.append(f"{right} ({needed})")
    except TimeoutError:
        asking.collect()
        return wrong(
            topic,
            "the broker takes no message for it: is there a memory or disk alarm?",
            "rabbitmq-diagnostics alarms",
        )
    asking.release()
    if not lacks:
        return None
    user, vhost = connection.userid, connection.virtual_host
    return wrong(
        topic,
        f"user {user!r} has no right to {', '.join(lacks)} of {queue}; its exchange is"
        f" {exchange.name or 'the default'!r}",
        f"rabbitmqctl set_permissions -p {vhost} {user} CONFIGURE WRITE READ, each a pattern that"
        " matches the names of queues and exchanges (the default one is amq.default)",
    )


def _is_refused(
    connection: Any, ask: Callable[[Any, str, str], object], queue: str, exchange: Any
) -> bool:
    channel = connection.channel()
    try:
        ask(channel, queue, exchange.name)
    except AccessRefused:
        return True
    except ChannelError:  # about the question, which was permitted
        return False
    channel.close()
    return False


def _publish(channel: Any, exchange: str) -> None:
    """To nobody: by a key that nobody has, and as a user who this one is not."""
    channel.confirm_select()
    nothing = channel.prepare_message(
        b"", properties={"user_id": "celery-fair doctor", "expiration": "0"}
    )
    channel.basic_publish_confirm(
        nothing,
        exchange=exchange,
        routing_key=f"celery-fair-doctor-{uuid4()}",
        confirm_timeout=_TIMEOUT,
    )


def _queue(
    connection: Any, queue: Any, non_repeatable: bool, usual_limit: int, keyed: Collection[str]
) -> Finding:
    """Say what kind of queue it is.

    Arguments:
        usual_limit: how often a message of a quorum queue may be returned; negative for no limit.
        keyed: queues that are shared by key: nobody consumes them, they are asked, as lanes are.
    """
    topic = f"queue {queue.name}"
    with connection.channel() as channel:
        try:
            found = channel.queue_declare(queue.name, passive=True)
        except NotFound:
            return ok(topic, "is not there yet; the first worker declares it")
        except ChannelError as exc:  # it is another connection's alone, say
            return weak(topic, f"cannot be looked at: {exc}", "try again when it is free")
    kind = _kind(connection, queue)
    waits = f"{found.message_count} messages, {found.consumer_count} consumers"
    if queue.name in keyed:
        by_key = broker_of(connection).by_key(connection.default_channel, [queue.name])
        in_lanes = by_key.get(queue.name, 0)
        waits = f"{found.message_count + in_lanes} messages, {in_lanes} of them in lanes"
    text = f"{kind} queue, {waits}"
    if kind == "classic" and non_repeatable:
        return weak(
            topic,
            f"{text}: when the broker crashes, its whole backlog counts as delivered, and"
            " non-repeatable tasks in it are dead-lettered; and it is on one node",
            "a quorum queue: app.conf.task_default_queue_type = 'quorum', or Queue(…,"
            " queue_arguments={'x-queue-type': 'quorum'}); under a new name, or when it is empty"
            " and deleted",
        )
    arguments = queue.queue_arguments or {}
    limit = int(arguments.get("x-delivery-limit", usual_limit))
    if kind == "quorum" and limit >= 0 and "x-dead-letter-exchange" not in arguments:
        return weak(
            topic,
            f"{text}: unless a policy says otherwise, a message that lost connections and killed"
            f" workers have returned more than {limit} times is dropped without a word",
            "a dead-letter exchange for it: Queue(…, queue_arguments={'x-dead-letter-exchange': …})"
            " or a policy with one",
        )
    return ok(topic, text)


def _kind(connection: Any, queue: Any) -> str:
    """A queue that is declared again must be declared alike: the answer tells what it is."""
    arguments = {**(queue.queue_arguments or {}), "x-queue-type": "quorum"}
    with connection.channel() as channel:
        try:
            channel.queue_declare(queue.name, durable=True, auto_delete=False, arguments=arguments)
        except PreconditionFailed as exc:
            return "classic" if "x-queue-type" in str(exc) else "some kind of"
        except ChannelError:  # it may not be declared: what it is remains open
            return "some kind of"
    return "quorum"
