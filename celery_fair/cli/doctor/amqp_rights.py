"""What RabbitMQ lets the app's user do, asked so that nothing is changed.

RabbitMQ looks at rights first: what is wrong otherwise with a question is the answer that there is
the right to ask it. So a queue is declared, and consumed, with an argument that cannot be; and what
is published is for nobody.
"""

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import uuid4

from amqp import AccessRefused, ChannelError
from kombu import Exchange

__all__ = ["missing_rights"]

_TIMEOUT = 3.0
"""Seconds for the broker to answer."""


def missing_rights(connection: Any, queue: Any, exchange: Exchange) -> list[str]:
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
