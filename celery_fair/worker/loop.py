"""Celery's synchronous loop, made to see all that the socket holds before anything is chosen."""

from contextlib import suppress
from typing import Any

from celery_fair.worker.dispatcher import Dispatcher
from celery_fair.worker.wakeup import BellWakeup, SyncWakeup

__all__ = ["Interruptible"]

_MOST = 500
"""Deliveries taken in at once, after which the dispatcher gets its turn."""

_NO_WAIT = 0.0001
"""Seconds; py-amqp spins on a timeout of zero unless an event loop drives it."""


class Interruptible:
    """A connection whose ``drain_events`` drains, then dispatches.

    It does not block while the dispatcher has more to start.
    """

    def __init__(
        self, connection: Any, dispatcher: Dispatcher, wakeup: BellWakeup | SyncWakeup
    ) -> None:
        self._connection = connection
        self._dispatcher = dispatcher
        self._wakeup = wakeup

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def drain_events(self, timeout: float | None = None) -> None:
        """Wait for an event, take in what else is there, run the dispatcher.

        Raises:
            TimeoutError: nothing came within `timeout` seconds.
        """
        drain = self._connection.drain_events
        self._dispatcher.run()
        self._wakeup.wait(self._connection, _NO_WAIT if self._dispatcher.pending else timeout)
        with suppress(TimeoutError):
            for _ in range(_MOST):
                drain(timeout=_NO_WAIT)
        self._dispatcher.run()
