"""The time after which RabbitMQ closes the channel of whoever holds a message unacknowledged.

What holds is that of the consumer's arguments, else of the queue's policy or arguments, else of
the node's configuration. AMQP tells a client none of them; it knows what it has given itself. That
is compared, and else what RabbitMQ has by default.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from celery_fair.cli.doctor.findings import Finding, listed, ok, weak
from celery_fair.cli.doctor.visibility import late_for_longer
from celery_fair.worker.queues.held import LONGEST_WAIT

__all__ = ["consumer_timeout", "default_timeout"]

_TOPIC = "consumer_timeout"
_ARGUMENT = "x-consumer-timeout"
_ARGUMENTS_SINCE = (3, 12)
"""https://www.rabbitmq.com/docs/consumers#acknowledgement-timeout"""

_LOOKS = 4
"""See `celery_fair.worker.queues.held`: what waits too long is found a quarter of the time late."""


def consumer_timeout(app: Any, connection: Any, queues: list[Any]) -> Iterator[Finding]:
    """Compare it with how long messages may be unacknowledged.

    Arguments:
        connection: connected.
        queues: those that workers consume.
    """
    server = connection.connection.server_properties
    usual = default_timeout(server)
    if usual is None:
        return
    own = _own_timeouts(server, queues)
    some = {queue.name for queue in queues} - own.keys()
    timeouts = own | ({"": usual} if some or not queues else {})
    found = [
        finding
        for queue, seconds in sorted(timeouts.items())
        for finding in _compared(app, queue, seconds)
    ]
    if not found:
        told = ", ".join(f"{name}: {seconds:g} s" for name, seconds in sorted(own.items()))
        found = [
            ok(
                _TOPIC,
                f"nothing is held for longer than {usual:g} s, RabbitMQ's default"
                f"{f' ({told}, as the queue says)' if told else ''}; AMQP does not say what this"
                " one has: rabbitmqctl environment | grep consumer_timeout",
            )
        ]
    yield from found


def default_timeout(server: Mapping[str, Any]) -> float | None:
    """Return its default in seconds, None for a broker that has none.

    Arguments:
        server: what it says of itself.
    """
    if server.get("product") != "RabbitMQ":
        return None
    numbers = tuple(int(n) for n in str(server.get("version", "")).split(".")[:3] if n.isdigit())
    if numbers < (3, 8, 15):
        return None
    return 900.0 if numbers < (3, 8, 17) else 1800.0


def _own_timeouts(server: Mapping[str, Any], queues: list[Any]) -> dict[str, float]:
    """Return what queues are declared with, in seconds, where the broker knows of that."""
    numbers = tuple(int(n) for n in str(server.get("version", "")).split(".")[:2] if n.isdigit())
    if numbers < _ARGUMENTS_SINCE:
        return {}
    declared = ((queue.name, (queue.queue_arguments or {}).get(_ARGUMENT)) for queue in queues)
    return {name: ms / 1000 for name, ms in declared if isinstance(ms, int | float)}


def _compared(app: Any, queue: str, seconds: float) -> Iterator[Finding]:
    topic = f"{_TOPIC} of {queue}" if queue else _TOPIC
    known = "which it is declared with" if queue else "RabbitMQ's default, if yours has no other"
    waits = min(LONGEST_WAIT, seconds / 2) * (1 + 1 / _LOOKS)
    longer = late_for_longer(app, seconds - waits)
    if longer:
        yield weak(
            topic,
            f"what is acknowledged when it ends, waits for up to {waits:g} s and then runs, may be"
            f" held for longer than {seconds:g} s ({known}): the queue's channel is closed, and it"
            f" is delivered again, or dead-lettered if it is non-repeatable. Tasks:"
            f" {listed(longer)}",
            f"a time_limit below {seconds - waits:g} s; or consumer_timeout in rabbitmq.conf above"
            " the longest run and that, in milliseconds",
        )
