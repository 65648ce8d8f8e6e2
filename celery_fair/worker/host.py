"""What is replaced in Celery, kombu and py-amqp: here, and nowhere else.

Most of it has no seam made for it; each function says what was there, and who takes its place.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from celery.worker.loops import synloop

from celery_fair.worker.bell import Bell, Interruptible, SocketBell, SyncBell

__all__ = [
    "acknowledge_by",
    "adopt",
    "heard",
    "is_lost",
    "keep",
    "read_by",
    "replace_consumer",
    "replace_loop",
    "replace_pool",
    "replace_requests",
    "write_by",
]

# Celery's consumer, once a process ------------------------------------------------


def replace_pool(c: Any, pool: Any) -> None:
    """The worker's pool, before Celery makes its strategies with it."""
    c.pool = c.controller.pool = pool


def replace_requests(c: Any, on_request: Callable[[Any], object]) -> None:
    """Who is given the requests of Celery's strategies: else they go to the pool at once."""
    c.on_task_request = on_request


def replace_loop(c: Any, bell: Bell) -> None:
    """Celery's synchronous loop, which waits for the broker alone; other loops are only woken."""
    if isinstance(bell, SocketBell | SyncBell):
        c.loop = partial(_synchronous_loop, bell)
    elif not hasattr(c, "call_soon_ack"):  # before Celery 5.7 the loop is not woken for it
        c.call_soon = _ringing(c.call_soon, bell.soon)


def _synchronous_loop(
    bell: SocketBell | SyncBell, obj: Any, connection: Any, *args: Any, **kwargs: Any
) -> None:
    synloop(obj, Interruptible(connection, bell), *args, **kwargs)


def _ringing(call_soon: Callable[..., Any], ring: Callable[[], object]) -> Callable[..., Any]:
    """Wake the loop for what other threads call in it, such as acknowledgements."""

    def ringing(*args: Any, **kwargs: Any) -> Any:
        called = call_soon(*args, **kwargs)
        ring()
        return called

    return ringing


# Celery's consumer, for each connection ---------------------------------------------


def replace_consumer(c: Any, consumer: Any, qos: Any) -> None:
    """The consumer of the worker's queues, and its prefetch count."""
    c.qos_global = False  # Celery's prefetch reduction after a reconnect does not apply
    c.qos = qos
    c.on_decode_error = _undecodable
    c.task_consumer = consumer


def _undecodable(message: Any, exc: Exception) -> NoReturn:  # noqa: ARG001
    """Celery would acknowledge it, which deletes it; who called the handler refuses it instead."""
    raise exc


# Kombu's channels, py-amqp's connections ----------------------------------------------


def adopt(channel: Any, message_class: type) -> None:
    """The class of a channel's messages."""
    channel.Message = message_class


def acknowledge_by(channel: Any, ack: Callable[..., object]) -> None:
    """A channel's ``basic_ack``."""
    channel.basic_ack = partial(ack, channel)


def write_by(connection: Any, writer: Callable[..., object]) -> None:
    """What writes a connection's frames."""
    connection.frame_writer = writer


def read_by(connection: Any, reader: Callable[..., object]) -> None:
    """What takes in a connection's frames: a public seam."""
    connection.on_inbound_frame = reader


def heard(connection: Any) -> None:
    """The broker lives: what its heartbeats are for."""
    connection.bytes_recv += 1


def keep(transport: Any, rest: bytes) -> None:
    """What was read and is no whole frame yet; py-amqp looks there first."""
    transport._read_buffer = rest


def is_lost(transport: Any) -> None:
    """The socket has failed, which py-amqp has not seen: nothing more is to be written."""
    transport.connected = False
