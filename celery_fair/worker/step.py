"""The bootstep that puts fair consumption in place of Celery's own; the worker that it makes."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import click
from celery import bootsteps
from celery.exceptions import ImproperlyConfigured
from celery.signals import celeryd_init, worker_shutting_down
from celery.utils.imports import symbol_by_name
from celery.worker.consumer.tasks import Tasks

from celery_fair.brokers.broker import (
    RedisBroker,
    bound_waits,
    broker_of,
    refuse_without_client,
)
from celery_fair.brokers.full_redis import let_work
from celery_fair.hidden import hide
from celery_fair.routing.declared import declare_queues, select_levels
from celery_fair.settings import Settings
from celery_fair.worker import control, patches  # noqa: F401 - registers the commands
from celery_fair.worker.observe.banner import banner, line, warnings
from celery_fair.worker.process import Parts
from celery_fair.worker.queues.consumer import FairTaskConsumer
from celery_fair.worker.session import Session

logger = logging.getLogger(__name__)


class FairWorker:
    """One a process; it outlives connections.

    Arguments:
        c: Celery's consumer.

    Attributes:
        hostname: the worker's name.
        parts: what outlives connections, too.
    """

    def __init__(self, c: Any) -> None:
        self._c = c
        self.hostname: str = c.hostname
        self.parts = Parts(c)
        self._session: Session | None = None
        self._ended: Session | None = None
        self._declared: list[Callable[[str], object]] = []
        self._has_said = False
        # The signal that asks for it interrupts no wait.
        worker_shutting_down.connect(self._on_shutting_down)

    def when_declared(self, told: Callable[[str], object]) -> None:
        """Tell this one of queues that are declared again, on later connections."""
        self._declared.append(told)

    @property
    def consumer(self) -> FairTaskConsumer | None:
        """The present connection's, if there is one."""
        return None if self._session is None else self._session.consumer

    def start(self) -> None:
        """Take over from Celery's consumer, on a new connection."""
        self._forget_ended()
        self._session = Session(self.parts, self._c, self._declared)
        if not self._has_said:  # not with each connection
            self._has_said = True
            logger.info("%s", line(self._c.app, self.parts.settings))
            for warning in warnings(self._c.app):
                logger.warning("%s", warning)
        else:
            self.parts.kept.look_again()
        for each in (*self.parts.servers, *self.parts.recorders):
            each.start()

    def stop(self) -> None:
        """Stop consuming: for a shutdown, or because the connection is gone."""
        session, self._session = self._session, None
        if session is None:
            return
        self._ended = session
        for recorder in self.parts.recorders:
            recorder.stop()
        try:
            session.end()
        finally:
            select_levels(self._c.app, self.parts.settings)  # for what add_consumer has added

    def shutdown(self) -> None:
        """Leave nothing open."""
        self.stop()
        self._forget_ended()
        self.parts.close()

    def _forget_ended(self) -> None:
        """What ran of the last connection's could be acknowledged until now."""
        ended, self._ended = self._ended, None
        if ended is not None:
            ended.close()

    def info(self) -> dict[str, Any]:
        """Each queue's window and what is buffered in it, for ``inspect stats``."""
        return {
            feed.name: {
                "quantum": feed.gate.options.quantum,
                "window": feed.window.size,
                "buffered": len(feed.buffer),
                "starved": feed.lull.starved,
            }
            for feed in self.parts.feeds
        }

    def _on_shutting_down(self, **kwargs: Any) -> None:
        self.parts.wake_up.interrupt()


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
            c.fair = FairWorker(c)

    def create(self, c: Any) -> Any:
        """Return what is started with each connection, and stopped at its end."""
        return c.fair

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
            bound_waits(app)
            patches.give_up_on_the_silent()
            if isinstance(broker_of(app.connection_for_read()), RedisBroker):
                patches.make_clients(let_work)
            settings = Settings.of(app)
            declare_queues(app, settings)
        except ImproperlyConfigured as exc:
            _refuse(exc)
        patches.say_in_banner(instance, lambda: banner(app, settings))


def _refuse(exc: ImproperlyConfigured) -> NoReturn:
    """Say what is wrong in one line, and end; of an exception a signal makes a log entry."""
    click.echo(f"Error: {exc}", err=True)
    raise SystemExit(2) from None
