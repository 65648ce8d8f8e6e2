"""A fair worker: its parts, and what it consumes on the present connection."""

import logging
from collections.abc import Callable
from typing import Any

from celery.signals import worker_shutting_down

from celery_fair.routing.declared import select_levels
from celery_fair.worker.observe.banner import line, warnings
from celery_fair.worker.process import Parts
from celery_fair.worker.queues.consumer import FairTaskConsumer
from celery_fair.worker.session import Session

__all__ = ["FairWorker"]

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
        self.parts.bell.later()  # in a signal's handler, where greenlets cannot wait for an answer
