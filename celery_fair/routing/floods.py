"""Publishers with ``fair_keys`` on RabbitMQ: who publishes more than in passing has a lane.

A key's first messages, and one a second from then on, go to the queue itself; the rest to a lane of
the key's (see `celery_fair.brokers.lanes`). So nobody's flood stands before anybody else's message.
A key's messages need not start in the order in which they were published, then.
"""

from collections.abc import Callable
from functools import partial
from os import getpid
from threading import Lock
from time import monotonic
from typing import Any
from weakref import finalize

from kombu import Queue

from celery_fair.brokers.broker import broker_of
from celery_fair.brokers.lanes import LaneChooser, Lanes, lane
from celery_fair.core.token_bucket import Profile
from celery_fair.settings import KeyedQueue

_BURST, _RATE = 2.0, 1.0
"""Messages of a key that go to the queue itself: at once, and a second."""

_MOST_KEYS = 100_000
"""Keys of which it is remembered what they have published."""


class Floods:
    """Of one app's publishers; any thread may ask.

    Arguments:
        amqp: Celery's, of the app.
        clock: the monotonic clock.
    """

    def __init__(self, amqp: Any, clock: Callable[[], float] = monotonic) -> None:
        self._amqp = amqp
        self._clock = clock
        self._forget()

    def lane(self, connection: Any, keyed: KeyedQueue, key: str) -> Queue | None:
        """Return the queue to publish a key's next message to; None for the one that was meant.

        Arguments:
            connection: kombu's, on which it is published.
            keyed: the queue's entry in ``fair_keys``.
        """
        if not broker_of(connection).has_lanes:
            return None
        if self._pid != getpid():  # a fork's child must not use its parent's connections
            self._forget()
        with self._lock:
            profile = self._profiles.setdefault(keyed.name, Profile(_BURST, _RATE, _MOST_KEYS))
            if profile.admits(key, self._clock()):
                return None
        meant = self._amqp.queues[keyed.name]
        url = connection.as_uri(include_password=True)
        number = self._chooser(url, keyed, meant).lane(key)
        return None if number is None else lane(meant, number)

    def _chooser(self, url: str, keyed: KeyedQueue, meant: Queue) -> LaneChooser:
        chooser = self._choosers.get((url, keyed.name))
        if chooser is None:
            connect = partial(self._amqp.app.connection_for_write, url, heartbeat=0)
            chooser = LaneChooser(Lanes(connect, meant, keyed.lanes))
        return self._choosers.setdefault((url, keyed.name), chooser)

    def _forget(self) -> None:
        self._pid, self._lock = getpid(), Lock()
        self._profiles: dict[str, Profile] = {}
        self._choosers: dict[tuple[str, str], LaneChooser] = {}
        finalize(self, _close, self._pid, self._choosers)


def _close(pid: int, choosers: dict[tuple[str, str], LaneChooser]) -> None:
    """Nobody publishes any more; a fork's child leaves its parent's connections alone."""
    if pid == getpid():
        for chooser in choosers.values():
            chooser.close()
