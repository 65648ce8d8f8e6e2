"""The bootstep that puts fair consumption in place of Celery's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import click
from celery import bootsteps
from celery.exceptions import ImproperlyConfigured
from celery.signals import celeryd_init
from celery.utils.imports import symbol_by_name
from celery.worker.consumer.tasks import Tasks

from celery_fair.brokers.refused import refuse_without_client
from celery_fair.hidden import hide
from celery_fair.routing.declared import declare_queues
from celery_fair.settings import Settings
from celery_fair.worker import control, host  # noqa: F401 - registers the commands
from celery_fair.worker.observe.banner import banner
from celery_fair.worker.seams import require
from celery_fair.worker.worker import FairWorker

__all__ = ["FairConsumerStep", "is_fair", "refusing"]

hide()


class FairConsumerStep(bootsteps.StartStopStep):
    """Consumes the worker's queues in proportion to their quanta.

    Add it to an app with ``app.steps["consumer"].add(FairConsumerStep)``. It starts after Celery's
    ``Tasks`` step and takes the place of its consumer.
    """

    label = "Fair consumer"
    requires = (Tasks,)

    def __init__(self, c: Any, **kwargs: Any) -> None:
        super().__init__(c, **kwargs)
        with refusing(c):
            require()
            c.fair = FairWorker(c)

    def start(self, c: Any) -> None:
        """Take over from Celery's consumer, on a new connection."""
        c.fair.start()

    def stop(self, c: Any) -> None:
        """Stop consuming: for a shutdown, or because the connection is gone."""
        c.fair.stop()

    def shutdown(self, c: Any) -> None:
        """Leave nothing open."""
        c.fair.shutdown()

    def info(self, c: Any) -> dict[str, Any]:  # type: ignore[override]
        """For ``inspect stats``."""
        return {"fair": c.fair.info()}


@contextmanager
def refusing(c: Any) -> Iterator[None]:
    """Have a command end with one line where a step finds that it cannot work.

    Arguments:
        c: Celery's consumer.
    """
    try:
        yield
    except ImproperlyConfigured as exc:
        from celery.apps.worker import Worker

        if not isinstance(c.controller, Worker):  # a test's, say, which wants the exception
            raise
        _refuse(exc)


def is_fair(app: Any) -> bool:
    """Whether an app's workers have the step, added as a class or by its name."""
    return FairConsumerStep in map(symbol_by_name, app.steps["consumer"])


@celeryd_init.connect
def before_queues_are_selected(instance: Any = None, **_: Any) -> None:
    """Make our queues known before the command line's ``-Q`` and ``-X`` are applied.

    And look for the broker's client before Celery does, who would fail with a traceback.
    """
    app = instance.app
    if is_fair(app):
        try:
            refuse_without_client(app)
            settings = Settings.of(app)
            declare_queues(app, settings)
        except ImproperlyConfigured as exc:
            _refuse(exc)
        host.say_in_banner(instance, lambda: banner(app, settings))


def _refuse(exc: ImproperlyConfigured) -> NoReturn:
    """Say what is wrong in one line, and end; of an exception a signal makes a log entry."""
    click.echo(f"Error: {exc}", err=True)
    raise SystemExit(2) from None
