"""What wakes an idle worker when a message comes to Redis, and takes nothing.

On a connection of its own the server is asked whether any list of an empty queue exists, and
remembers who has asked (``CLIENT TRACKING``, from Redis 6 on): it pushes a word as soon as one of
them changes. Nothing is taken from any list, so nothing can be lost on its way. What came between
the last look and the question is in the question's answer.

The server forgets a list that it has told of; that one is asked for again when it is empty again.
While nothing changes, all are asked for every few seconds: on a connection that is half-open, the
answer is missed, and the worker connects again. So something is asked if there are none, too: a
server with a ``timeout`` closes what says nothing for longer.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection
from time import monotonic
from typing import Any

logger = logging.getLogger(__name__)

_ASKS_EVERY = 5
"""Seconds between two questions where nothing is heard."""

_ANSWERS_WITHIN = 10
"""Seconds after which a server that says nothing counts as gone."""


def wake_up_for(
    channel: Any, hub: Any, changed: Callable[[Collection[str]], object], interval: float
) -> "RedisWakeUp | None":
    """Return what wakes a worker; None, and say why, if server, rights or client do not allow it.

    Arguments:
        channel: kombu's.
        hub: the event loop.
        changed: called when a list may have something, with the lists that would be told of when
            they change: any other may have changed unheard.
        interval: seconds between two looks instead.
    """
    from redis.exceptions import RedisError

    try:
        return RedisWakeUp(channel.client.connection_pool, hub, changed)
    except (RedisError, TypeError, AttributeError) as exc:  # or a proxy in between hangs up
        logger.warning(
            "Redis does not tell this worker of new messages (CLIENT TRACKING, over RESP3: %s):"
            " while it is idle, it looks at its queues every %g ms instead. That takes Redis 6 or"
            " newer, redis-py 5.1 or newer, and the right: redis-cli ACL SETUSER %s"
            " '+client|tracking' +hello",
            exc,
            1000 * interval,
            channel.connection.client.userid or "default",
        )
        return None


class RedisWakeUp:
    """Of one connection of the worker's.

    Arguments:
        pool: redis-py's, of connections to the server.
        hub, changed: as `wake_up_for`.

    Raises:
        redis.exceptions.RedisError: the server does not know that, or this user may not.
        TypeError, AttributeError: the client library cannot.
    """

    def __init__(self, pool: Any, hub: Any, changed: Callable[[Collection[str]], object]) -> None:
        self._hub = hub
        self._changed = changed
        self._told_of: set[str] = set()
        self._questions: deque[Collection[str]] = deque()
        self._heard = monotonic()
        self._connection = pool.connection_class(**{**pool.connection_kwargs, "protocol": 3})
        try:
            self._connection.connect()
            self._connection._parser.set_invalidation_push_handler(lambda said: said)
            self._connection.send_command("CLIENT", "TRACKING", "ON")
            self._connection.read_response()
        except BaseException:  # whatever it is, no connection stays behind; re-raised
            self._connection.disconnect()
            raise
        self._socket = self._connection._sock
        self._timer = hub.call_repeatedly(_ASKS_EVERY, self._ask_again)
        hub.add_reader(self._socket, self._on_readable)

    def listen(self, keys: Collection[str]) -> None:
        """Be told of these lists, besides those that it is told of already."""
        new = [key for key in keys if key not in self._told_of]
        if new:
            self._told_of.update(new)
            self._ask(new)

    def close(self) -> None:
        """Close the connection."""
        self._timer.cancel()
        self._hub.remove_reader(self._socket)
        self._connection.disconnect()

    def _ask(self, keys: Collection[str]) -> None:
        if not self._questions:
            self._heard = monotonic()
        self._questions.append(keys)
        self._connection.send_command(*(("EXISTS", *keys) if keys else ("PING",)))

    def _on_readable(self) -> None:
        changed: set[str] = set()
        while self._connection.can_read(timeout=0):
            answer = self._connection.read_response(push_request=True)
            self._heard = monotonic()
            if isinstance(answer, list):
                changed.update(self._invalidated(answer[1]))
            # None was a word to the client library: of a failover to come, say.
            elif answer is not None and (asked := self._questions.popleft()) and answer:
                changed.update(asked)
        if changed:
            self._told_of -= changed
            self._changed(self._told_of)

    def _invalidated(self, keys: list[Any] | None) -> Collection[str]:
        if keys is None:  # all, as of FLUSHALL
            return self._told_of
        return [key.decode() if isinstance(key, bytes) else key for key in keys]

    def _ask_again(self) -> None:
        self._on_readable()  # a task of a solo pool keeps the thread, and then timers come first
        if self._questions and monotonic() - self._heard > _ANSWERS_WITHIN:
            raise ConnectionError(
                f"Redis has said nothing for {_ANSWERS_WITHIN} s; connecting again"
            )
        if not self._questions:
            self._ask(sorted(self._told_of))
