"""Notices a broker that says nothing, while its connection lasts.

A firewall may have forgotten the connection, or the broker's host lost its power: here it stays
open. Celery waits for heartbeats, two minutes by default. Here a broker that has said nothing for
a while is asked something; if that is not answered within the time that an answer may take, the
connection is lost. So it is if somebody else has waited in vain for an answer, who may have had
other worries than to say so: its socket is closed then, of which no event loop tells.
"""

import logging
from collections.abc import Callable
from selectors import EVENT_READ, DefaultSelector
from time import monotonic
from typing import Any

from amqp import RecoverableConnectionError, spec

from celery_fair.worker import patches

logger = logging.getLogger(__name__)


class SilenceWatch:
    """Of one connection; called by a timer, on the thread that owns its channels.

    Arguments:
        channel: py-amqp's, open for as long as the connection.
        call_later: calls a function after so many seconds, on that thread, if the connection is
            still consumed on.
        raises: whether the loop hears of a lost connection by an error; others look.
        clock: the monotonic clock.
    """

    def __init__(
        self,
        channel: Any,
        call_later: Callable[[float, Callable[[], object]], object],
        raises: bool = True,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._channel = channel
        self._call_later = call_later
        self._raises = raises
        self._clock = clock
        self._within = channel.connection.read_timeout
        self._heard: int | None = None
        self._asked: float | None = None
        if self._within:  # else the user waits for ever
            self._look()

    def _look(self) -> None:
        connection, now = self._channel.connection, self._clock()
        if connection is None or not connection.connected:
            said = f"the broker has said nothing for {self._within:g} s, though it was asked"
            if self._raises:
                raise RecoverableConnectionError(said)
            logger.warning("Connection: %s", said)
            return
        if connection.bytes_recv != self._heard or _has_come(connection.sock):
            self._heard, self._asked = connection.bytes_recv, None
        elif self._asked is None:
            self._asked = now
            self._channel.send_method(spec.Channel.Flow, "b", (True,))  # as it is
        elif now - self._asked >= self._within:
            patches.leave(connection)
            self._look()
            return
        self._call_later(self._within / 2, self._look)


def _has_come(sock: Any) -> bool:
    """Whether something was said that nobody has read yet, as a task has kept the thread."""
    with DefaultSelector() as look:
        look.register(sock, EVENT_READ)
        return bool(getattr(sock, "pending", int)() or look.select(0))
