"""The tasks of the worker process; the newsletters are published before it consumes.

A thread publishes the mails while it does.
"""

from threading import Thread
from time import monotonic, sleep
from typing import Any

from celery.signals import worker_init, worker_ready

from celery_fair.cli.demo.app import make_app, order, published, started
from celery_fair.cli.demo.waits.scenario import (
    BULK,
    INTERACTIVE,
    MAIL_TAKES,
    NEWSLETTER_TAKES,
    QUANTA,
    Scenario,
)

__all__ = ["app"]

scenario = Scenario(**order.work)
app = make_app(QUANTA)


@app.task(name="send_newsletter")
def send_newsletter(number: int) -> None:
    """Wait for a mail server, as it were."""
    started.write(number)
    sleep(NEWSLETTER_TAKES)


@app.task(name="send_password")
def send_password(number: int) -> None:
    """Do the same for a shorter time."""
    started.write(number)
    sleep(MAIL_TAKES)


def publish(task: Any, queue: str, number: int) -> None:
    """Publish one message, as anybody would."""
    published.write(number)
    task.apply_async((number,), queue=order.prefix + queue)


def publish_mails() -> None:
    """Publish each mail when it is due."""
    begin = monotonic()
    for number, due in enumerate(scenario.times, scenario.newsletters):
        sleep(max(0.0, begin + due - monotonic()))
        publish(send_password, INTERACTIVE, number)


publisher = Thread(target=publish_mails, daemon=True)


@worker_init.connect
def publish_newsletters(**_: Any) -> None:
    """Publish the backlog."""
    for number in range(scenario.newsletters):
        publish(send_newsletter, BULK, number)


@worker_ready.connect
def begin(**_: Any) -> None:
    """Let the mails come. After a lost connection the worker is ready once more."""
    if publisher.ident is None:
        publisher.start()
