"""For how long a message may be held.

Redis and SQS give it to another worker when their visibility timeout is over, whatever the first
one does. RabbitMQ closes the channel of whoever holds one unacknowledged for longer than its
consumer timeout.

The consumer timeout is that of the consumer's arguments, else of the queue's policy or arguments,
else of the node's configuration. AMQP tells a client none of them; it knows what it has given
itself. That is compared, and else what RabbitMQ has by default.
"""

from collections.abc import Iterator
from typing import Any

from celery_fair.core.disposition import Policy
from celery_fair.operate.doctor.findings import Finding, listed, ok, weak
from celery_fair.tasks import policy_of
from celery_fair.worker.queues.held import LONGEST_WAIT

_TOPIC = "consumer_timeout"
_ARGUMENT = "x-consumer-timeout"
_ARGUMENTS_SINCE = (3, 12)
"""https://www.rabbitmq.com/docs/consumers#acknowledgement-timeout"""

_DEFAULT = 1800.0
"""RabbitMQ's, in seconds."""

_LOOKS = 4
"""See `celery_fair.worker.queues.held`: what waits too long is found a quarter of the time late."""


def consumer_timeout(app: Any, connection: Any, queues: list[Any]) -> Iterator[Finding]:
    """Compare it with how long messages may be unacknowledged.

    Arguments:
        connection: connected.
        queues: those that workers consume.
    """
    product, _, numbers = version_of(connection)
    if product != "RabbitMQ":
        return
    own = _own_timeouts(queues) if numbers >= _ARGUMENTS_SINCE else {}
    some = {queue.name for queue in queues} - own.keys()
    timeouts = own | ({"": _DEFAULT} if some or not queues else {})
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
                f"nothing is held for longer than {_DEFAULT:g} s, RabbitMQ's default"
                f"{f' ({told}, as the queue says)' if told else ''}; AMQP does not say what this"
                " one has: rabbitmqctl environment | grep consumer_timeout",
            )
        ]
    yield from found


def version_of(connection: Any) -> tuple[str, str, tuple[int, ...]]:
    """Return what a broker says that it is, its version, and the first two numbers of that."""
    server = connection.connection.server_properties
    version = str(server.get("version", ""))
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    return server.get("product", "a broker"), version, numbers


def _own_timeouts(queues: list[Any]) -> dict[str, float]:
    """Return what queues are declared with, in seconds."""
    declared = ((queue.name, (queue.queue_arguments or {}).get(_ARGUMENT)) for queue in queues)
    return {name: ms / 1000 for name, ms in declared if isinstance(ms, int | float)}


def _compared(app: Any, queue: str, seconds: float) -> Iterator[Finding]:
    topic = f"{_TOPIC} of {queue}" if queue else _TOPIC
    known = "which it is declared with" if queue else "RabbitMQ's default, if yours has no other"
    waits = min(LONGEST_WAIT, seconds / 2) * (1 + 1 / _LOOKS)
    longer = _late_for_longer(app, seconds - waits)
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


def _late_for_longer(app: Any, seconds: float) -> list[str]:
    """Return the tasks that are acknowledged when they end, and may run for longer."""
    longer = []
    for name, task in sorted(app.tasks.items()):
        late = policy_of(task) is Policy.AFTER or task.acks_late
        limit = task.time_limit or app.conf.task_time_limit
        if late and not name.startswith("celery.") and (limit is None or limit > seconds):
            longer.append(name)
    return longer


def visibility(app: Any, seconds: float) -> Finding:
    """Compare it with how long tasks may run that are acknowledged when they end."""
    longer = _late_for_longer(app, seconds)
    if longer:
        return weak(
            "visibility timeout",
            f"what runs for longer than {seconds:g} s is delivered again while it runs, and"
            f" dead-lettered if it is non-repeatable: {', '.join(longer)}",
            "broker_transport_options = {'visibility_timeout': …} above the longest run, or a"
            " time_limit below it",
        )
    return ok("visibility timeout", f"{seconds:g} s, longer than what is acknowledged late may run")
