"""What the pool works on now, and how much more it takes.

Celery keeps ``state.reserved_requests``, but those include requests that wait for their ETA's or
rate limit's turn in our buffers, and Celery forgets them on a connection loss although they run on.
So the requests that were handed to the pool are counted here, and the pool's own callbacks say when
each has ended (see `pool`).

Celery's autoscaler grows the pool by the requests that wait in it. Here none waits in the pool, so
a slot that may be added counts as a free one, and is added when a request has been chosen for it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from celery.worker import state


class InFlight:
    """The requests that occupy a slot. Told by `ObservedPool` of their ends.

    Arguments:
        freed: called at each end, on any thread.
        ended: told of each request that has ended, and its run time if that is known; there may
            be more of them later.

    Attributes:
        begun: how many requests were ever handed to the pool.
        ended_count: how many of them have ended.
    """

    def __init__(
        self,
        freed: Callable[[], object] = lambda: None,
        ended: Sequence[Callable[[Any, float], object]] = (),
    ) -> None:
        self._freed = freed
        self._ended = ended
        self._requests: dict[int, Any] = {}
        self.begun = 0
        self.ended_count = 0
        self._by_queue: Counter[str] = Counter()
        self._lanes: set[tuple[str, str]] = set()  # each starts one request at a time

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Any:
        return iter(list(self._requests.values()))

    def add(self, request: Any) -> None:
        """The request is about to be handed to the pool."""
        self.begun += 1
        request.message.hand_over(monotonic())
        self._requests[id(request)] = request
        self._by_queue[_queue(request)] += 1
        if request.message.lane is not None:
            self._lanes.add((_queue(request), request.message.lane))

    def of(self, queue: str) -> int:
        """How many requests of a queue are in flight."""
        return self._by_queue[queue]

    def runs(self, queue: str, lane: str) -> bool:
        """Whether a request of one of a queue's lanes is in flight; see `lanes`."""
        return (queue, lane) in self._lanes

    def remove(self, request: Any, seconds: float | None = None) -> None:
        """The request has ended, in whichever way; a second call does nothing.

        Arguments:
            seconds: its run time, where Celery has told it; else it is that since it was added.
        """
        if self._requests.pop(id(request), None) is not None:
            seconds = monotonic() - request.message.begun_at if seconds is None else seconds
            self._by_queue[_queue(request)] -= 1
            self._lanes.discard((_queue(request), request.message.lane))
            self.ended_count += 1
            for told in self._ended:
                told(request, seconds)
            self._freed()

    def forget_dropped(self, pool: Any) -> None:
        """After a connection loss a prefork pool drops what no process had accepted yet.

        Before Celery 5.6 it forgets also what runs, of whose end it will tell nobody. Other pools
        drop nothing: what they were handed begins, if not now.
        """
        jobs = getattr(pool._pool, "_cache", None)
        if jobs is None:
            return
        known = {job.correlation_id for job in jobs.values()}
        for request in self:
            if request.id not in known or request not in state.active_requests:
                self.remove(request)


def _queue(request: Any) -> str:
    return str(request.message.feed.name)


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
        self.in_flight = in_flight
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
        if autoscaler and len(self.in_flight) > autoscaler.processes:
            with autoscaler.mutex:
                autoscaler.scale_up(1)
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
