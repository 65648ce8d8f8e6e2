"""The Celery app of the worker process. Import it only there: it reads its order from a file.

Messages are published from within the worker, because the in-memory broker connects threads of one
process only.
"""

import os
import signal
import socket
from pathlib import Path
from typing import Any

from celery import Celery, bootsteps
from celery.worker.consumer.connection import Connection
from kombu import Exchange, Queue

from celery_fair.cli.demo.order import FOLDER_VARIABLE, Order
from celery_fair.cli.demo.trace import TraceWriter

__all__ = ["make_app", "order", "published", "started"]

_UNUSED_QUEUE_LIVES = 3600  # seconds; RabbitMQ then deletes it, should nobody else have done so
_PATIENCE = 60_000  # ms that a fast publisher may be held back before its connection counts as dead
_LOOKS_FOR_ITS_PARENT_EVERY = 1.0

order = Order.read(Path(os.environ[FOLDER_VARIABLE]))
published = TraceWriter(order.published)
started = TraceWriter(order.started)


class Guard(bootsteps.StartStopStep):
    """Ends the worker, warmly, when the command that started it is gone, however that ended."""

    requires = (Connection,)

    def start(self, c: Any) -> None:
        """Look at once, and then now and then: who is orphaned belongs to another process."""
        self._look()
        c.timer.call_repeatedly(_LOOKS_FOR_ITS_PARENT_EVERY, self._look)

    def _look(self) -> None:
        if os.getppid() != order.command:  # which may have ended before this process was ready
            os.kill(os.getpid(), signal.SIGTERM)


def make_app(quanta: dict[str, int]) -> Celery:
    """Return an app with these queues, fair if the order says so.

    Arguments:
        quanta: those of the queues, by their names without the prefix.
    """
    app = Celery("fair_demo", broker=order.broker, set_as_current=True)
    exchange = Exchange(f"{order.prefix}tasks", auto_delete=True)  # goes with its last queue
    names = [order.prefix + queue for queue in quanta]
    app.conf.update(
        broker_connection_retry_on_startup=True,
        broker_transport_options=_transport_options(),
        task_ignore_result=True,
        task_queues=[
            Queue(name, exchange, routing_key=name, expires=_UNUSED_QUEUE_LIVES) for name in names
        ],
        worker_enable_remote_control=False,
    )
    app.steps["consumer"].add(Guard)
    if order.fair:
        _make_fair(app, dict(zip(names, quanta.values(), strict=True)))
    return app


def _make_fair(app: Celery, quanta: dict[str, int]) -> None:
    from celery_fair import install

    app.conf.update(
        fair_queues={name: {"quantum": quantum} for name, quantum in quanta.items()},
        fair_event_log=order.event_log,
    )
    install(app)


def _transport_options() -> dict[str, Any]:
    """Return the options that the broker of this order needs."""
    if order.broker.startswith("memory"):
        return {"polling_interval": 0.01}  # it has no other way to notice a message
    if order.broker.startswith("redis"):
        return {"global_keyprefix": order.prefix}
    return {"socket_settings": {getattr(socket, "TCP_USER_TIMEOUT", 18): _PATIENCE}}
