"""What takes long to read, and is the same for all who ask."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import BoundedSemaphore, Lock
from typing import Generic, TypeVar

__all__ = ["BusyError", "Reads"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BusyError(Exception):
    """So much is being read that no more is begun."""


class Reads(Generic[K, V]):
    """Reads once for all who ask for the same at a time, and keeps the last results.

    Who asks for something that is kept never waits, nor do many for what is not: each of them has
    one of the server's threads. What fails is not kept.

    Arguments:
        kept: how many results.
        most: what they may weigh together; the last is kept in any case.
        weight: a result's.
        at_once: how many are read at a time.
        begun: how many may have been begun, the waiting ones included.
        waiting: how many may wait for what another reads.
    """

    def __init__(
        self,
        kept: int,
        most: float = float("inf"),
        weight: Callable[[V], float] = lambda _: 0.0,
        *,
        at_once: int = 2,
        begun: int = 8,
        waiting: int = 8,
    ) -> None:
        self._kept = kept
        self._most = most
        self._weight = weight
        self._begun = begun
        self._may_wait = BoundedSemaphore(waiting)
        self._known: OrderedDict[K, V] = OrderedDict()
        self._reading: dict[K, Future[V]] = {}
        self._lock = Lock()
        self._turn = BoundedSemaphore(at_once)

    def get(self, key: K, read: Callable[[], V]) -> V:
        """Return what is kept, or else read, for which the lock is not held.

        Raises:
            BusyError: as many others have been begun, or wait for this, as may.
        """
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
            reading = self._reading.get(key)
            if reading is None:
                if len(self._reading) >= self._begun:
                    raise BusyError
                mine = self._reading[key] = Future()
        if reading is None:
            return self._read(key, mine, read)
        if not self._may_wait.acquire(blocking=False):
            raise BusyError
        try:
            return reading.result()
        finally:
            self._may_wait.release()
            del reading  # with an error in it, that has this frame in it

    def _read(self, key: K, mine: Future[V], read: Callable[[], V]) -> V:
        try:
            with self._turn:
                found = read()
        except BaseException as exc:
            with self._lock:
                del self._reading[key]
            mine.set_exception(exc)
            del mine  # as above
            raise
        with self._lock:
            del self._reading[key]
            self._keep(key, found)
        mine.set_result(found)
        return found

    def _keep(self, key: K, found: V) -> None:
        self._known[key] = found
        weights = {each: self._weight(value) for each, value in self._known.items()}
        total = sum(weights.values())
        while len(self._known) > max(1, self._kept) or (
            total > self._most and len(self._known) > 1
        ):
            dropped, _ = self._known.popitem(last=False)
            total -= weights[dropped]
