"""The AMQP socket, drained in one go.

Kombu's reader hands on one delivery per turn of the event loop. A scheduler that is to choose
among queues needs to see what all of them have, so this one reads until the socket is empty.
"""

import errno
from typing import Any

from amqp import RecoverableConnectionError

__all__ = ["DrainingReader"]

_MOST = 500
"""Frames' worth of events per turn: timers, results and control commands wait no longer."""


class DrainingReader:
    """The event loop's callback for the broker's socket."""

    def __init__(self, connection: Any, hub: Any) -> None:
        self._connection = connection
        self._hub = hub

    def __call__(self) -> None:
        # A write that failed, of an acknowledgement say, has marked it; whose caller may have had
        # other worries. The socket stays readable, and nobody else will say so.
        if not self._connection.connected:
            raise RecoverableConnectionError("the broker's connection is lost")
        if not self._read():
            self._hub.call_soon(self._again)

    def _read(self) -> bool:
        """Take in what there is; return whether that was all."""
        drain = self._connection.drain_events
        for _ in range(_MOST):
            try:
                drain(timeout=0)
            except TimeoutError:
                return True
            except OSError as exc:
                if exc.errno in (errno.EAGAIN, errno.EINTR):
                    return True
                raise
        return False

    def _again(self) -> None:
        # The event loop may have been reset since, for another connection.
        if self._connection.connected:
            self()
