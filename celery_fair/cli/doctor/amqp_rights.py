"""What RabbitMQ lets the app's user do, asked so that nothing is changed.

RabbitMQ looks at rights first: what is wrong otherwise with a question is the answer that there is
the right to ask it. So a queue is declared, and consumed, with an argument that cannot be; and what
is published is for nobody.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from uuid import uuid4

from amqp import AccessRefused, ChannelError
from kombu import Exchange

__all__ = ["missing_rights"]

_TIMEOUT = 5.0
"""Seconds for the broker to answer."""


def missing_rights(connection: Any, queue: Any, exchange: Exchange) -> list[str]:
    """Return which of "configure", "read" and "write" the user lacks, for a queue and its exchange.

    Arguments:
        connection: connected.
        queue: its name.
        exchange: by which it is published to.
    """
    asked: dict[str, Callable[[Any], Any]] = {
        "configure": partial(_declare, queue=queue),
        "read": partial(_consume, queue=queue),
        "write": partial(_publish, exchange=exchange),
    }
    return list(_refused(connection, asked))


def _refused(connection: Any, asked: dict[str, Callable[[Any], Any]]) -> Iterator[str]:
    for right, ask in asked.items():
        channel = connection.channel()
        try:
            ask(channel)
        except AccessRefused:
            yield right
        except ChannelError:  # about the question, which was permitted
            continue
        else:
            channel.close()


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
