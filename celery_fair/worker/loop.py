"""Celery's synchronous loop, with a dispatcher that may have more to do than to wait."""

from typing import Any

from celery_fair.worker.dispatcher import Dispatcher

__all__ = ["Interruptible"]


class Interruptible:
    """A connection that does not block in ``drain_events`` while something can be started."""

    def __init__(self, connection: Any, dispatcher: Dispatcher) -> None:
        self._connection = connection
        self._dispatcher = dispatcher

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def drain_events(self, timeout: float | None = None) -> Any:
        """As the connection's own; returns at once if the dispatcher was interrupted in its work."""
        self._dispatcher.run()
        return self._connection.drain_events(timeout=0 if self._dispatcher.pending else timeout)
