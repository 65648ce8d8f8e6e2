"""For how long a message may be held.

Redis and SQS give it to another worker when their visibility timeout is over, whatever the first
one does. RabbitMQ closes the channel of whoever holds one unacknowledged for longer than its
consumer timeout.

The consumer timeout is that of the consumer's arguments, else of the queue's policy or arguments,
else of the node's configuration. AMQP tells a client none of them; it knows what it has given
itself. That is compared, and else what RabbitMQ has by default.
"""

from typing import Any

from celery_fair.core.disposition import Policy
from celery_fair.operate.doctor.findings import Finding, listed, ok, weak
from celery_fair.tasks import policy_of
from celery_fair.worker.queues.held import LONGEST_WAIT

_ARGUMENT = "x-consumer-timeout"
"""https://www.rabbitmq.com/docs/consumers#acknowledgement-timeout"""

_DEFAULT = 1800.0
"""RabbitMQ's, in seconds."""

_KNOWN = (
    "as its queue is declared, or RabbitMQ's default; AMQP does not say what this one has:"
    " rabbitmqctl environment | grep consumer_timeout"
)

_LOOKS = 4
"""See `celery_fair.worker.queues.held`: what waits too long is found a quarter of the time late."""


def consumer_timeout(app: Any, queues: list[Any]) -> Finding:
    """Compare the shortest that a queue has with how long messages may be unacknowledged."""
    told = [(queue.queue_arguments or {}).get(_ARGUMENT, 1000 * _DEFAULT) for queue in queues]
    seconds = min(map(float, told), default=1000 * _DEFAULT) / 1000
    waits = min(LONGEST_WAIT, seconds / 2) * (1 + 1 / _LOOKS)
    longer = _late_for_longer(app, seconds - waits)
    if not longer:
        return ok("consumer_timeout", f"nothing is held for longer than {seconds:g} s ({_KNOWN})")
    return weak(
        "consumer_timeout",
        f"what is acknowledged when it ends, waits for up to {waits:g} s and then runs, may be held"
        f" for longer than {seconds:g} s ({_KNOWN}): the queue's channel is closed, and it is"
        f" delivered again, or dead-lettered if it is non-repeatable. Tasks: {listed(longer)}",
        f"a time_limit below {seconds - waits:g} s; or consumer_timeout in rabbitmq.conf above the"
        " longest run and that, in milliseconds",
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
