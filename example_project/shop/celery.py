"""The shop's Celery app, as it was before anybody thought of shares."""

import os

from celery import Celery
from kombu import Queue

app = Celery(
    "shop",
    broker=os.environ.get("SHOP_BROKER", "amqp://guest:guest@localhost:5672//"),
    include=["shop.tasks"],
)
app.conf.task_ignore_result = True
app.conf.task_queues = [
    Queue(name, routing_key=name) for name in ("interactive", "reports", "bulk")
]
app.conf.task_routes = {
    "shop.tasks.send_receipt": {"queue": "interactive"},
    "shop.tasks.make_report": {"queue": "reports"},
    "shop.tasks.send_newsletter": {"queue": "bulk"},
}
