"""What keeps a capped key's place for a message: a lease, renewed as long as the message is here.

A place is taken in Redis together with the message, and given back when the task has ended. If its
worker is gone, so is the place when its lease is over. A thread renews those of this worker, on a
connection of its own: neither a long task in the main thread nor a lost connection ends a lease.
"""

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Any, NamedTuple
from weakref import ref

from celery_fair.brokers.keyed.scripts import KeyedScripts, Left
from celery_fair.brokers.redis import Commands
from celery_fair.clock import elapsed
from celery_fair.settings import KeyedQueue

logger = logging.getLogger(__name__)

_EVERY, _AGAIN, _MARGIN = 1 / 3, 1 / 15, 1 / 10
"""Of a lease: between two renewals, until another try if one has failed, and how much of it must be
left for a message to start."""

_PATIENCE = 10.0
"""Seconds to wait for the last answer when the worker ends."""


class _Place(NamedTuple):
    tenant: str
    message: ref[Any]
    until: float


class KeySlots:
    """The places that messages of this worker have.

    Arguments:
        connect: returns a new connection to the broker, or the store of keys.
        queues: those of ``fair_keys``, by name.
    """

    def __init__(self, connect: Callable[[], Any], queues: Mapping[str, KeyedQueue]) -> None:
        self._connect = connect
        self._queues = queues
        self._lease = min((queue.lease for queue in queues.values()), default=math.inf)
        self._lock = Lock()
        self._held: dict[str, dict[str, _Place]] = defaultdict(dict)
        self._left: dict[str, list[Left]] = defaultdict(list)
        self._thread: Thread | None = None
        self._closed = Event()
        self._connection: Any = None

    def take(self, queue: str, message: Any, asked: float) -> None:
        """A message has come with a place, for which it was asked at this time, by `elapsed`."""
        with self._lock:
            turn = message.turn
            self._held[queue][turn.place] = _Place(turn.tenant, ref(message), asked + self._lease)
            if self._thread is None:
                self._thread = Thread(target=self._renew_all, name="fair-key-places", daemon=True)
                self._thread.start()

    def holds(self, queue: str, message: Any) -> bool:
        """Whether a message may start: it has its place still, or needs none."""
        if message.turn is None or message.turn.has != "place":
            return True
        with self._lock:
            place = self._held[queue].get(message.turn.place)
        return place is not None and elapsed() < place.until - _MARGIN * self._lease

    def leave(self, queue: str, message: Any, unused: bool) -> bool:
        """A message needs its place no longer, or token if it did not start; whether it had one."""
        turn = message.turn
        had = turn is not None and (turn.has == "place" or (unused and turn.has == "token"))
        if had:
            message.come_by(turn._replace(has="left"))
            with self._lock:
                self._held[queue].pop(turn.place, None)
                self._left[queue].append(Left(turn.tenant, turn.place, unused))
        return had

    def left(self, queue: str) -> list[Left]:
        """Return, once, what the broker is to be told of a queue."""
        if queue not in self._left:
            return []
        with self._lock:
            return self._left.pop(queue, [])

    def untold(self, queue: str, left: list[Left]) -> None:
        """It could not be told."""
        with self._lock:
            self._left[queue][:0] = left

    def unused(self, queue: str, tenant: str, place: str) -> None:
        """Nothing has started by a permit that had this place, or a token."""
        self.untold(queue, [Left(tenant, place, True)])

    def close(self) -> None:
        """Tell what is left to be told."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE)

    def _renew_all(self) -> None:
        last = False
        while True:
            try:
                for queue in self._queues:
                    self._renew(queue)
                wait = _EVERY * self._lease
            except Exception as exc:  # noqa: BLE001 - of whatever client or server; tried again
                logger.warning("Cannot renew the slots of capped keys: %s", exc)
                self._disconnect()
                wait = _AGAIN * self._lease
            if last:
                self._disconnect()
                return
            last = self._closed.wait(wait)  # what has ended by then is told with the next round

    def _renew(self, queue: str) -> None:
        left = self.left(queue)
        with self._lock:
            held = dict(self._held[queue])
        try:
            if left:
                self._lists(queue).leave(left)
        except Exception:  # whatever it is, it was perhaps not told; re-raised
            self.untold(queue, left)
            raise
        gone = [name for name, place in held.items() if place.message() is None]
        asked = elapsed()
        alive = [(place.tenant, name) for name, place in held.items() if name not in gone]
        lost = self._lists(queue).renew(alive) if alive else []
        with self._lock:
            still = [name in self._held[queue] for _, name in alive]
            for number, (_, name) in enumerate(alive):
                if still[number]:
                    until = 0.0 if number in lost else asked + self._lease
                    self._held[queue][name] = held[name]._replace(until=until)
            lost = [number for number in lost if still[number] and held[alive[number][1]].until]
            for name in gone:  # whoever had it did not say so
                if self._held[queue].pop(name, None) is not None:
                    self._left[queue].append(Left(held[name].tenant, name, False))
        if lost:
            tenants = ", ".join(sorted({alive[number][0] for number in lost}))
            logger.warning(
                "Redis has not heard of this worker for %g s; %s messages of queue %s have lost"
                " their slots, and tasks of these keys may run beyond their caps: %s",
                self._queues[queue].lease,
                len(lost),
                queue,
                tenants,
            )

    def _lists(self, queue: str) -> KeyedScripts:
        if self._connection is None:
            self._connection = self._connect()
        channel = self._connection.default_channel
        return KeyedScripts(channel, Commands(channel), self._queues[queue])

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it is broken
                connection.close()
