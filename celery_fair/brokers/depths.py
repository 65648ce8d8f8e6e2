"""How many messages wait at the broker, asked by a thread on a connection of its own.

On the worker's connection the answer would stand behind the deliveries, and come when it is true no
more: of a broker that is slow to deliver just what the answer is to tell is not known.

What is on its way to the worker counts nowhere: it has left the queue.

The worker neither waits nor fails for an answer. While the broker cannot be reached, or does not
answer in time, nothing is known; the thread tries again.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from threading import Event, Thread
from time import monotonic
from typing import Any, NamedTuple

from celery_fair.brokers.broker import broker_of

logger = logging.getLogger(__name__)

_EVERY = 1.0
"""Seconds between two rounds of questions, unless it is said otherwise."""

_MOST = 250
"""Questions a second, over a long time: about very many queues the rounds are further apart."""

_APART = 100
"""A round about queues that are shared by key, each of which may have a thousand lanes, is followed
by a pause of so many times as long: the broker has other work, and workers are many."""

_PATIENCE = 5.0
"""Seconds in which the broker must have answered."""

_GOODBYE = 1.0
"""Seconds that the worker's end waits for the thread's, at the most."""


class Depth(NamedTuple):
    """What is known of a queue.

    Attributes:
        messages: how many wait at the broker.
        since: since when some do, or none does, on the monotonic clock: the first of such answers
            without another between them.
        at: when the last of them was asked for, on that clock.
    """

    messages: int
    since: float
    at: float


class Depths:
    """Asks until it is closed, from the first `start` on.

    Arguments:
        connect: makes a kombu connection, without opening it.
        keyed: queues that are shared by key.
        every: seconds between two rounds of questions, at the least.
    """

    def __init__(
        self, connect: Callable[[], Any], keyed: Collection[str], every: float = _EVERY
    ) -> None:
        self._connect = connect
        self._every = every
        self._keyed = keyed
        self._queues: frozenset[str] = frozenset()
        self._known: dict[str, Depth] = {}
        self._news = Event()  # other queues, or the end
        self._closed = False
        self._connection: Any = None
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin, if that was not done."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name="depths", daemon=True)
            self._thread.start()

    def ask_about(self, queues: Iterable[str]) -> None:
        """Ask about these, and at once if they are others than before."""
        names = frozenset(queues)
        if names != self._queues:
            self._queues = names
            self._news.set()

    def of(self, queue: str) -> Depth | None:
        """Return what the broker said last; None if nothing is known."""
        return self._known.get(queue)

    def close(self) -> None:
        """Ask no more."""
        self._closed = True
        self._news.set()
        if self._thread is not None:
            self._thread.join(_GOODBYE)

    def _run(self) -> None:
        while not self._closed:
            try:
                self._ask_on(self._connect())
            except Exception as exc:  # noqa: BLE001 - of any transport; the log must not end for it
                logger.debug("Cannot ask the broker for the depths of queues: %r", exc)
            self._known = {}
            self._pause(self._every)

    def _ask_on(self, connection: Any) -> None:
        broker = broker_of(connection)
        connection = broker.impatient(connection, _PATIENCE)
        self._connection = connection  # a fork's child must not think it garbage, and close it
        try:
            connection.connect()
            channel = connection.channel()
            while not self._closed:
                began = monotonic()
                self._known = self._asked(
                    lambda queue: broker.depth(channel, queue, _PATIENCE, queue in self._keyed)
                )
                took = (monotonic() - began) if self._keyed else 0.0
                self._pause(max(self._every, len(self._known) / _MOST, _APART * took))
        except Exception:  # whatever has failed: no word of good-bye is due; raised again
            connection.collect()
            raise
        connection.release()

    def _asked(self, ask: Callable[[str], int | None]) -> dict[str, Depth]:
        known = {}
        for queue in self._queues:
            asked, messages, now = monotonic(), ask(queue), monotonic()
            if messages is not None:
                before = self._known.get(queue)
                same = before is not None and bool(before.messages) == bool(messages)
                known[queue] = Depth(messages, before.since if before and same else now, asked)
        return known

    def _pause(self, seconds: float) -> None:
        self._news.wait(seconds)
        if not self._closed:
            self._news.clear()


def depths_of(connection: Any, queues: Iterable[str], keyed: Collection[str]) -> dict[str, int]:
    """Ask once, on a connection that is open; a queue that is not there is left out.

    Arguments:
        keyed: those that are shared by key.

    Raises:
        Exception: whatever the transport raises if the broker does not answer.
    """
    broker, channel = broker_of(connection), connection.default_channel
    found = {queue: broker.depth(channel, queue, _PATIENCE, queue in keyed) for queue in queues}
    return {queue: depth for queue, depth in found.items() if depth is not None}


def oldest_of(connection: Any, queues: Iterable[str]) -> dict[str, float]:
    """Ask when the messages were published that are next in queues, of those that tell; Unix time.

    Raises:
        Exception: whatever the transport raises if the broker does not answer.
    """
    broker, channel = broker_of(connection), connection.default_channel
    found = {queue: broker.oldest(channel, queue) for queue in queues}
    return {queue: time for queue, time in found.items() if time is not None}
