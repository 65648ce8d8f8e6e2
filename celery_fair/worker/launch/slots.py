"""The pool's slots: those that there are, and those that autoscale may add.

Celery's autoscaler grows the pool by the requests that wait in it. Here none waits in the pool, so
a slot that may be added counts as a free one, and is added when a request has been chosen for it.
"""

from collections.abc import Callable
from typing import Any

from celery_fair.worker.launch.in_flight import InFlight

__all__ = ["Slots", "pool_size"]


def pool_size(pool: Any) -> int:
    """Return how many tasks a pool of Celery's can run at once, now.

    Before Celery 5.7 a gevent pool gives the tasks that *run* for its number of processes. What it
    may run is in gevent's own pool, also after it was grown or shrunk.
    """
    size = getattr(pool._pool, "size", None) if pool.is_green else None
    return int(size or pool.num_processes or 0)


class Slots:
    """How many requests may run at once, and the way to start one.

    Arguments:
        controller: Celery's worker; its autoscaler comes into being after this object.
        in_flight: what occupies slots.
        to_pool: hands a request to the pool.
    """

    def __init__(
        self, controller: Any, in_flight: InFlight, to_pool: Callable[[Any], object]
    ) -> None:
        self._controller = controller
        self._in_flight = in_flight
        self._to_pool = to_pool

    def count(self) -> int:
        """Return how many requests may run at once, now."""
        autoscaler = self._autoscaler
        most: int = autoscaler.max_concurrency if autoscaler else 0
        return max(most, self.here())

    def here(self) -> int:
        """Return how many the pool can run at once, as large as it is now."""
        return pool_size(self._controller.pool)

    def fill(self, request: Any) -> None:
        """Start a request that is counted as in flight, on a new slot if all others are taken.

        Whatever it raises, the slot is free again: Celery keeps it if the request is malformed.
        """
        autoscaler = self._autoscaler
        if autoscaler and len(self._in_flight) > autoscaler.processes:
            with autoscaler.mutex:
                autoscaler.scale_up(1)
                autoscaler.pool.maintain_pool()
        try:
            self._to_pool(request)
        except Exception:  # whatever ends the hand-over, the slot is free again; re-raised
            semaphore = getattr(self._controller, "semaphore", None)
            if semaphore is not None:
                semaphore.release()
            raise

    @property
    def _autoscaler(self) -> Any:
        return getattr(self._controller, "autoscaler", None)
