"""The tasks of the worker process, and their backlog, published before it consumes."""

from time import perf_counter_ns
from typing import Any

from celery import uuid
from celery.signals import worker_init

from celery_fair.cli.demo.app import make_app, order, published, started
from celery_fair.cli.demo.shares.workload import COST, QUANTA, QUEUES, Workload

__all__ = ["app"]

workload = Workload(**order.work)


def cost(*_: Any) -> float:
    """Every message costs the same."""
    return COST


app = make_app(dict(zip(QUEUES, QUANTA, strict=True)))
app.conf.update(fair_cost=cost)


@app.task(name="fair_demo.spin")
def spin(queue: int) -> None:
    """Record the start, then keep a processor busy."""
    end = perf_counter_ns() + 1000 * workload.work
    started.write(queue)
    while perf_counter_ns() < end:
        pass


@worker_init.connect
def publish(**_: Any) -> None:
    """Fill the queues, in turns."""
    with app.producer_or_acquire() as producer:
        for queue in app.amqp.queues.values():
            queue(producer.channel).declare()
        for _round in range(workload.messages):
            for number, name in enumerate(QUEUES):
                send(producer, order.prefix + name, number)
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
