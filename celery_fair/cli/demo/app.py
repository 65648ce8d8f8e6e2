"""The Celery app of the worker process. Import it only there: it reads its order from a file.

The backlog is published from within the worker, before it consumes, because the in-memory broker
connects threads of one process only.
"""

import os
import socket
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from celery import Celery, uuid
from celery.signals import worker_init
from kombu import Exchange, Queue

from celery_fair import FairConsumerStep
from celery_fair.cli.demo.guard import Guard
from celery_fair.cli.demo.order import FOLDER_VARIABLE, Order
from celery_fair.cli.demo.tape import TapeWriter
from celery_fair.cli.demo.workload import COST, QUANTA, QUEUES

__all__ = ["app"]

_UNUSED_QUEUE_LIVES = 3600  # seconds; RabbitMQ then deletes it, should nobody else have done so
_PATIENCE = 60_000  # ms that a fast publisher may be held back before its connection counts as dead

order = Order.read(Path(os.environ[FOLDER_VARIABLE]))
published = TapeWriter(order.published)
started = TapeWriter(order.started)
names = [order.prefix + queue for queue in QUEUES]
exchange = Exchange(f"{order.prefix}tasks", auto_delete=True)  # goes with the last of the queues


def cost(*_: Any) -> float:
    """Every message costs the same."""
    return COST


def transport_options() -> dict[str, Any]:
    """Return the options that the broker of this order needs."""
    if order.broker.startswith("memory"):
        return {"polling_interval": 0.01}
    if order.broker.startswith("redis"):
        return {"global_keyprefix": order.prefix}
    return {"socket_settings": {getattr(socket, "TCP_USER_TIMEOUT", 18): _PATIENCE}}


app = Celery("fair_demo", broker=order.broker, set_as_current=True)
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options=transport_options(),
    fair_cost=cost,
    fair_event_log=order.event_log,
    fair_queues={name: {"quantum": quantum} for name, quantum in zip(names, QUANTA, strict=True)},
    task_ignore_result=True,
    task_queues=[
        Queue(name, exchange, routing_key=name, expires=_UNUSED_QUEUE_LIVES) for name in names
    ],
    worker_enable_remote_control=False,
)
app.steps["consumer"].update((FairConsumerStep, Guard))


@app.task(name="fair_demo.spin")
def spin(queue: int) -> None:
    """Record the start, then keep a processor busy."""
    end = perf_counter_ns() + 1000 * order.work
    started.write(queue)
    while perf_counter_ns() < end:
        pass


@worker_init.connect
def publish(**_: Any) -> None:
    """Fill the queues, in turns."""
    with app.producer_or_acquire() as producer:
        for queue in app.amqp.queues.values():
            queue(producer.channel).declare()
        for _round in range(order.messages):
            for number, name in enumerate(names):
                send(producer, name, number)
                published.write(number)


def send(producer: Any, queue: str, number: int) -> None:
    """Publish one task; `apply_async` does the same with much around it, at half the speed."""
    message = app.amqp.create_task_message(uuid(), spin.name, (number,), {})
    producer.publish(
        message.body,
        exchange="",
        routing_key=queue,
        headers=message.headers,
        delivery_mode="transient",
        **message.properties,
    )
