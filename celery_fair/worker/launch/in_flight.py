"""What the pool works on now, and the news that a slot is free.

Celery keeps ``state.reserved_requests``, but those include requests that wait for their ETA's or
rate limit's turn in our buffers, and Celery forgets them on a connection loss although they run on.
So the requests that were handed to the pool are counted here, and the pool's own callbacks say when
each has ended.
"""

import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from time import monotonic, sleep
from typing import Any, NamedTuple, Protocol

from billiard.einfo import ExceptionInfo
from celery.concurrency import thread as threads
from celery.exceptions import Terminated, TimeLimitExceeded, WorkerLostError
from celery.worker import state

from celery_fair.worker.launch.prefork import settle, shrink, write_now

__all__ = [
    "BreakWatch",
    "InFlight",
    "ObservedPool",
    "Way",
    "check_options",
    "check_time_limits",
    "plain_way",
]


class BreakWatch(Protocol):
    """Is told by which processes work is done, and of what was broken off."""

    def accepted(self, pid: int) -> None:
        """A process of the pool's has begun a request."""

    def broken_off(self, request: Any, exc: BaseException) -> None:
        """A request's process was stopped in its midst, or has died."""


class InFlight:
    """The requests that occupy a slot. Told by `ObservedPool` of their ends.

    Arguments:
        freed: called at each end, on any thread.
        ended: told of each request that has ended, and its run time if that is known.

    Attributes:
        boarded: how many requests were ever handed to the pool.
        landed: how many of them have ended.
    """

    def __init__(
        self,
        freed: Callable[[], object] = lambda: None,
        ended: Sequence[Callable[[Any, float | None], object]] = (),
    ) -> None:
        self._freed = freed
        self._ended = tuple(ended)
        self._requests: dict[int, Any] = {}
        self.boarded = 0
        self.landed = 0
        self._by_queue: Counter[str] = Counter()
        self._by_lane: Counter[tuple[str, str]] = Counter()

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Any:
        return iter(list(self._requests.values()))

    def board(self, request: Any) -> None:
        """The request is about to be handed to the pool; a second call does nothing."""
        if id(request) in self._requests:
            return
        self.boarded += 1
        request.message.board(monotonic())
        self._requests[id(request)] = request
        self._by_queue[_queue(request)] += 1
        lane = request.message.lane
        if lane is not None:
            self._by_lane[_queue(request), lane] += 1

    def of(self, queue: str) -> int:
        """How many requests of a queue are in flight."""
        return self._by_queue[queue]

    def runs(self, queue: str, lane: str) -> bool:
        """Whether a request of one of a queue's lanes is in flight; see `lanes`."""
        return (queue, lane) in self._by_lane

    def land(self, request: Any, seconds: float | None = None) -> None:
        """The request has ended, in whichever way; a second call does nothing.

        Arguments:
            seconds: its run time, where Celery has told it.
        """
        if self._requests.pop(id(request), None) is not None:
            self._by_queue[_queue(request)] -= 1
            self._leave_lane(request)
            self.landed += 1
            for told in self._ended:
                told(request, seconds)
            self._freed()

    def _leave_lane(self, request: Any) -> None:
        lane = _queue(request), request.message.lane
        if lane in self._by_lane:
            self._by_lane[lane] -= 1
            if not self._by_lane[lane]:
                del self._by_lane[lane]

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
                self.land(request)


_BROKEN_OFF = (Terminated, TimeLimitExceeded, WorkerLostError, SystemExit, KeyboardInterrupt)


def _queue(request: Any) -> str:
    return str(request.message.feed.name)


_PATIENCE = 5.0
"""Seconds for a thread to begin what it was handed: there is one for each slot."""


class Way(NamedTuple):
    """Into a pool."""

    apply: Callable[..., Any]
    """Like the pool's ``apply_async``."""
    ended: Callable[[], object]
    """To be called when a request has ended."""
    waits: Callable[[], bool]
    """Whether something waits for a thread, and is thrown away if the pool stops just now."""


def plain_way(pool: Any, freed: Callable[[], object]) -> Way:
    """Return the pool's own.

    Arguments:
        freed: what is to be called when a request has ended.
    """
    kind: Any = type(pool)
    if kind is threads.TaskPool:
        return Way(pool.apply_async, freed, lambda: not pool.executor._work_queue.empty())
    return Way(pool.apply_async, freed, lambda: False)


class ObservedPool:
    """The worker's pool, with each request's beginning and end told to `InFlight`.

    Anything else is the pool's own.

    Arguments:
        way: into the pool.
        watches: told of what was broken off.
    """

    def __init__(
        self, pool: Any, in_flight: InFlight, way: Way, watches: Sequence[BreakWatch] = ()
    ) -> None:
        self._observed = pool
        self._in_flight = in_flight
        self._apply = way.apply
        self._waits = way.waits
        self._watches = tuple(watches)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._observed, name)

    def grow(self, n: int = 1) -> None:
        """As the pool's own, but at once: prefork would start processes within five seconds."""
        self._observed.grow(n)
        self._observed.maintain_pool()

    def shrink(self, n: int = 1) -> None:
        """As the pool's own, but what runs is let be."""
        shrink(self._observed, n)

    def apply_async(
        self,
        target: Any,
        args: Any = None,
        kwargs: Any = None,
        callback: Any = None,
        error_callback: Any = None,
        timeout_callback: Any = None,
        **options: Any,
    ) -> Any:
        """As the pool's own. The request is known by its callback, one of its methods."""
        request = getattr(callback, "__self__", None)
        if request is None:
            return self._observed.apply_async(target, args, kwargs, **options)
        land = self._in_flight.land

        def on_end(result: Any) -> None:
            if isinstance(result, ExceptionInfo) and error_callback:
                # The task has raised SystemExit, or another that is no `Exception`. Celery's pools
                # of threads, greenlets and the process itself take that for a result; prefork's
                # for an error, which it is.
                on_error(result)
                return
            seconds = None
            try:
                if result is not _FAILED:
                    callback(result)
                    _, _, seconds = result  # whether it failed, what it returned, its run time
            finally:
                land(request, seconds)

        def on_error(error: Any) -> None:
            try:
                error_callback(error)
            finally:
                land(request)
                self._failed(request, error)

        def on_timeout(soft: bool, timeout: float) -> None:
            try:
                timeout_callback(soft, timeout)
            finally:
                if not soft:
                    land(request)

        if error_callback and not self._observed.uses_semaphore:
            target = _guarded(target, error_callback, request)
        self._in_flight.board(request)
        try:
            job = self._apply(
                target,
                args,
                kwargs,
                callback=on_end,
                error_callback=on_error if error_callback else None,
                timeout_callback=on_timeout if timeout_callback else None,
                **self._watched(options),
            )
        except BaseException:  # whatever ends the hand-over, the slot is free again; then re-raised
            land(request)
            raise
        return job

    def _watched(self, options: dict[str, Any]) -> dict[str, Any]:
        """Options with which we hear which process, of a pool that has some, begins a request."""
        if not (self._watches and self._observed.uses_semaphore):
            return options
        accept = options.get("accept_callback")

        def on_accept(pid: int, at: Any) -> None:
            for watch in self._watches:
                watch.accepted(pid)
            if accept is not None:
                accept(pid, at)

        return options | {"accept_callback": on_accept}

    def _failed(self, request: Any, error: Any) -> None:
        """The pool has no result of a request, but an error of its own."""
        exc = getattr(error.exception, "exc", error.exception)  # as pickled, with its traceback
        if isinstance(exc, _BROKEN_OFF):
            for watch in self._watches:
                watch.broken_off(request, exc)

    def handed_over(self) -> None:
        """All that can be started now has been handed over."""
        if self._observed.uses_semaphore:
            write_now(self._observed)

    def flush(self) -> None:
        """As the pool's own, if it has one: that throws away what no process has accepted."""
        settle(self._observed)
        if self._observed.flush is not None:
            self._observed.flush()

    def settle(self) -> None:
        """Wait until processes, or threads, have what was handed over.

        A pool that stops throws away the rest (that of threads since Celery 5.7), which may be
        acknowledged.
        """
        settle(self._observed)
        until = monotonic() + _PATIENCE
        while self._waits() and monotonic() < until:
            sleep(0.001)


logger = logging.getLogger(__name__)

_FAILED = object()


def check_time_limits(request: Any) -> None:
    """Refuse limits that are no numbers of seconds: a prefork pool would end the worker, later.

    Raises:
        TypeError, ValueError, OverflowError: they are not; they come from the message.
    """
    hard, soft = request.time_limits
    for limit in (hard, soft):
        if limit is not None:
            math.ceil(limit)


def check_options(request: Any) -> None:
    """Refuse a body whose options are none: Celery finds out when the message is acknowledged.

    Raises:
        Exception: they are none, or the body cannot be decoded.
    """
    _, _, options = request._payload
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"a task's options must be a mapping, not {options!r:.200}")


def _guarded(target: Any, error_callback: Any, request: Any) -> Any:
    """What prefork does: an error of Celery's own, around the task's code, ends the task alone.

    A malformed message can cause one. In a thread or greenlet the request would then never end;
    in the main process (solo) it would end the worker. Celery may fail to take note of it, too.
    """

    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return target(*args, **kwargs)
        except Exception:  # noqa: BLE001 - handed on
            try:
                error_callback(ExceptionInfo())
            except Exception:  # handlers and options of the task may raise anything
                logger.exception("Celery could not take note of the failure of %s", request.id)
                request.reject(requeue=False)
            return _FAILED

    return guarded
