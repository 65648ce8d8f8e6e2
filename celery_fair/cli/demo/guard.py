"""Ends the worker when the command that started it is gone, however that ended."""

import os
import signal
from typing import Any

from celery import bootsteps
from celery.worker.consumer.connection import Connection

__all__ = ["Guard"]

_EVERY = 1.0


class Guard(bootsteps.StartStopStep):
    """A worker whose parent has died belongs to another process: then it shuts down, warmly."""

    requires = (Connection,)

    def __init__(self, c: Any, **kwargs: Any) -> None:
        super().__init__(c, **kwargs)
        self._parent = os.getppid()

    def start(self, c: Any) -> None:
        """Look now and then."""
        c.timer.call_repeatedly(_EVERY, self._look)

    def _look(self) -> None:
        if os.getppid() != self._parent:
            os.kill(os.getpid(), signal.SIGTERM)
