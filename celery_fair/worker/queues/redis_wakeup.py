"""What wakes an idle worker when a message comes to Redis.

A ``BRPOP`` on a connection of its own, watched by the event loop, waits for the next message of any
queue whose buffer is empty. The server takes that message off its list before anybody has it: if
the connection or the worker is lost just then, so is the message, as with kombu.
"""

import logging
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from celery_fair.brokers.redis import Commands, connection_of

__all__ = ["RedisWakeUp", "may_wait"]

logger = logging.getLogger(__name__)

_TIMEOUT = 5
"""Seconds after which the server answers a BRPOP even if there is nothing."""

OVERDUE = 20
"""Seconds beyond that after which a silent server counts as gone."""


def may_wait(send: Commands, user: str, interval: float) -> bool:
    """Whether the server lets a wait be ended; if not, say so.

    Arguments:
        interval: seconds between two looks instead.
    """
    asking = [("CLIENT", "ID"), ("CLIENT", "UNBLOCK", 0)]
    lacks = next(filter(None, send.refused(asking)), None)
    if lacks is not None:
        logger.warning(
            "Redis user %r may not end its own wait for messages (%s): while it is idle, this"
            " worker looks at its queues every %g ms instead. What helps: redis-cli ACL SETUSER"
            " %s '+client|id' '+client|unblock'",
            user,
            lacks,
            1000 * interval,
            user,
        )
    return lacks is None


class RedisWakeUp:
    """Of one connection of the worker's.

    Arguments:
        channel: kombu's.
        send: sends commands beside it.
        hub: the event loop.
        came: given the name of a queue, and the message that has come; False if nobody wants it.
        woken: called when something has come, or may have.

    Attributes:
        listening: names of the queues that are waited for.
    """

    def __init__(
        self,
        channel: Any,
        send: Commands,
        hub: Any,
        came: Callable[[str, bytes], bool],
        woken: Callable[[], object],
    ) -> None:
        self._channel = channel
        self._send = send
        self._hub = hub
        self._came = came
        self._woken = woken
        self._connection: Any = None
        self._id: int | None = None
        self._since = 0.0
        self._names: Mapping[str, str] = {}  # of queues, by their lists

    @property
    def listening(self) -> set[str]:
        """The names of the queues that are waited for."""
        return set(self._names.values())

    def listen(self, queues: Mapping[str, list[str]]) -> None:
        """Wait for the next message of any of these queues, given with their lists.

        If fewer are waited for now, that wait is ended, and its answer is to bring us here again.
        """
        if not queues or queues.keys() <= self.listening:
            return
        if self._names:
            self._end_wait()
            return
        if self._connection is None:
            self._open()
        self._names = {key: name for name in sorted(queues) for key in queues[name]}
        self._since = monotonic()
        self._connection.send_command("BRPOP", *self._names, _TIMEOUT)

    def hear(self) -> None:
        """Take in the answer, if it is there."""
        if not self._names or self._connection._sock is None:
            return
        if self._connection.can_read(timeout=0):
            answer = self._connection.read_response()
            names, self._names = self._names, {}
            if answer and not self._came(names[answer[0].decode()], answer[1]):
                self._send("RPUSH", *answer)

    def last(self) -> None:
        """Wait no more: what is given back must wake nobody."""
        if self._names:
            self._end_wait()
            answer = self._connection.read_response()
            if answer:
                self._send("RPUSH", *answer)
        self.close()

    def check(self) -> None:
        """Look whether the server is there still.

        Raises:
            ConnectionError: it has not answered in time.
        """
        if self._names and monotonic() - self._since > _TIMEOUT + OVERDUE:
            self._connection.disconnect()
            raise ConnectionError("Redis has not answered a BRPOP in time; connecting again")

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        self._names = {}
        if connection is not None:
            if connection._sock is not None:
                self._hub.remove_reader(connection._sock)
            connection.disconnect()

    def _open(self) -> None:
        self._connection = connection_of(self._channel.client.connection_pool)
        self._connection.send_command("CLIENT", "ID")
        self._id = self._connection.read_response()
        self._hub.add_reader(self._connection._sock, self._on_readable)

    def _on_readable(self) -> None:
        self.hear()
        self._woken()  # it listens again if there is a slot for what may come

    def _end_wait(self) -> None:
        self._send("CLIENT", "UNBLOCK", self._id)
