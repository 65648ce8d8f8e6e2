"""The worker process: its app and its tasks. Import it only there: it reads its order.

The newsletters are published before the worker consumes; a thread publishes the mails while it
does. That is done from within the worker, because the in-memory broker connects threads of one
process only.
"""

import json
import os
import signal
from threading import Thread
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

from celery import Celery
from celery.signals import worker_init, worker_ready
from kombu import Exchange, Queue

from celery_fair.cli.demo.scenario import BULK, INTERACTIVE, QUANTA, TAKES, Scenario
from celery_fair.cli.demo.worker import ORDER_VARIABLE, TraceWriter

_UNUSED_QUEUE_LIVES = 3600  # seconds; RabbitMQ then deletes it, should nobody else have done so
_LOOKS_FOR_ITS_PARENT_EVERY = 1.0

order = SimpleNamespace(**json.loads(os.environ.pop(ORDER_VARIABLE)))  # its children lack it
scenario = Scenario(order.seconds, order.slots)
trace = TraceWriter(order.trace)


exchange = Exchange(f"{order.prefix}tasks", auto_delete=True)  # goes with its last queue
names = {queue: order.prefix + queue for queue in QUANTA}
options: dict[str, dict[str, Any]] = {
    "memory": {"polling_interval": 0.01},  # it has no other way to notice a message
    "redis": {"global_keyprefix": order.prefix},
    "rediss": {"global_keyprefix": order.prefix},
}

app = Celery("fair_demo", broker=order.broker, set_as_current=True)
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options=options.get(order.broker.partition(":")[0], {}),
    task_ignore_result=True,
    task_queues=[
        Queue(name, exchange, routing_key=name, expires=_UNUSED_QUEUE_LIVES)
        for name in names.values()
    ],
    worker_enable_remote_control=False,
)
if order.fair:
    from celery_fair import install

    app.conf.update(
        fair_queues={names[INTERACTIVE]: {"target": order.target}}
        if order.target
        else {names[queue]: {"quantum": quantum} for queue, quantum in QUANTA.items()},
    )
    install(app)


@app.task(name="send_newsletter")
def send_newsletter(number: int) -> None:
    """Wait for a mail server, as it were."""
    trace.write(True, number)
    sleep(TAKES[BULK])


@app.task(name="send_password")
def send_password(number: int) -> None:
    """Do the same for a shorter time."""
    trace.write(True, number)
    sleep(TAKES[INTERACTIVE])


def publish(task: Any, queue: str, number: int) -> None:
    """Publish one message, as anybody would."""
    trace.write(False, number)
    task.apply_async((number,), queue=names[queue])


def publish_mails() -> None:
    """Publish each mail when it is due."""
    begin = monotonic()
    for number, due in enumerate(scenario.times, scenario.newsletters):
        sleep(max(0.0, begin + due - monotonic()))
        publish(send_password, INTERACTIVE, number)


def end_with_the_command() -> None:
    """End the worker, warmly, when the command that started it is gone, however that ended."""
    while os.getppid() == order.command:  # which may have ended before this process was ready
        sleep(_LOOKS_FOR_ITS_PARENT_EVERY)
    os.kill(os.getpid(), signal.SIGTERM)


threads = [Thread(target=each, daemon=True) for each in (end_with_the_command, publish_mails)]


@worker_init.connect
def publish_newsletters(**_: Any) -> None:
    """Publish the backlog."""
    for number in range(scenario.newsletters):
        publish(send_newsletter, BULK, number)


@worker_ready.connect
def begin(**_: Any) -> None:
    """Let the mails come. After a lost connection the worker is ready once more."""
    while threads:
        threads.pop().start()
