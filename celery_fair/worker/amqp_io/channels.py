"""A connection's channels, of which a broker allows so many: 2,047 is RabbitMQ's default.

A queue has a channel of its own as long as there are enough: its trouble stays on it. Beyond that
queues share channels, as evenly as can be. Their windows stay their own, as ``basic.qos`` holds for
each subscription by itself; but a broker that closes a shared channel takes back the deliveries of
all its queues, which are then consumed again. A queue that was the reason, as the broker refuses to
let it be consumed, gets one of the channels kept in reserve when it is tried again.
"""

from collections.abc import Callable
from typing import Any

import amqp

from celery_fair.worker import patches

_SPARE = 16
"""Channels kept for others on the connection: Celery's own, control commands, declarations."""

_Told = Callable[[int, Exception], object]


class Channels:
    """Of one connection.

    Arguments:
        connection: kombu's.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._most = most = int(getattr(connection.connection, "channel_max", 0) or 65535)
        self._spare = min(_SPARE, most // 4)
        self._most_shared = max(1, most // 8)
        self._shared: list[_Shared] = []
        self._alone: set[str] = set()

    def take(self, queue: str) -> Any:
        """Return a channel for a queue: one of its own, or a `SharedChannel`."""
        free = self._free()
        to_be_shared = self._most_shared - len(self._shared)
        if free > self._spare + to_be_shared or (queue in self._alone and free > 1):
            return self._connection.channel()
        if to_be_shared > 0 and (free > self._spare or not self._shared):
            self._shared.append(_Shared(self._connection.channel(), self._shared.remove))
        return min(self._shared, key=len).join(self._alone.add)

    def _free(self) -> int:
        used: Any = self._connection.connection.channels
        if used is None:
            raise amqp.RecoverableConnectionError("connection already closed")
        return self._most - len(used) + 1  # the connection is among them


class _Shared:
    """A channel that is shared.

    Arguments:
        channel: kombu's.
        on_end: told when it is of no use any more.
    """

    def __init__(self, channel: Any, on_end: Callable[["_Shared"], object]) -> None:
        self.channel = channel
        self._on_end = on_end
        self._users: dict[SharedChannel, _Told] = {}
        patches.tell_of_close(channel, self._closed, always=True)

    def __len__(self) -> int:
        return len(self._users)

    def join(self, refused: Callable[[str], object]) -> "SharedChannel":
        """Let one more use it."""
        user = SharedChannel(self, refused)
        self._users[user] = lambda number, reason: None
        return user

    def tell(self, user: "SharedChannel", told: _Told) -> None:
        """Tell a user if the broker closes it."""
        self._users[user] = told

    def leave(self, user: "SharedChannel") -> None:
        """One uses it no more; with the last it ends."""
        if self._users.pop(user, None) is not None and not self._users:
            self._on_end(self)
            self.channel.close()

    def _closed(self, number: int, reason: Exception) -> None:
        users, self._users = self._users, {}
        self._on_end(self)
        for told in users.values():
            told(number, reason)


class SharedChannel:
    """A queue's part of a channel: its messages are of a class of their own.

    Arguments:
        refused: told the name of a queue that the broker does not let us consume.
    """

    def __init__(self, shared: _Shared, refused: Callable[[str], object]) -> None:
        self._shared = shared
        self._refused = refused
        self.Message = shared.channel.Message

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shared.channel, name)

    def when_closed(self, told: _Told) -> None:
        """Have this called when the broker closes the channel."""
        self._shared.tell(self, told)

    def message_to_python(self, raw: Any) -> Any:
        """As the channel's own."""
        return self.Message(raw, channel=self)

    def basic_consume(self, queue: str, **options: Any) -> Any:
        """As the channel's own."""
        return self._asked(self._shared.channel.basic_consume, queue, **options)

    def basic_get(self, queue: str) -> Any:
        """As the channel's own."""
        return self._asked(self._shared.channel.basic_get, queue)

    def _asked(self, ask: Callable[..., Any], queue: str, **options: Any) -> Any:
        try:
            return ask(queue=queue, **options)
        except amqp.ChannelError:
            self._refused(queue)
            raise

    def close(self) -> None:
        """Leave it to the others."""
        self._shared.leave(self)
