"""Where the fast path leaves the plain one, and how it hands requests to a pool of threads.

Celery submits each request to the standard library's executor, which wakes a thread for each. Under
Python's global lock the woken ones then queue up for the lock, however short the tasks are, and
pass it around between them and the thread that hands out work. Here the executor gets a runner,
which takes one request after the other; only while its first one is at work still, when another
thread has got the lock, does a second runner take the next.

For the same reason that requests have ended is reported when none is left to begin: until then no
thread is short of work.
"""

import logging
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Any

from amqp.transport import TCPTransport
from celery.concurrency import solo
from celery.concurrency import thread as threads
from celery.concurrency.base import apply_target

from celery_fair.worker.amqp_io.reader import DrainingReader
from celery_fair.worker.fast_path.fast_requests import FastRequests
from celery_fair.worker.fast_path.frames import BufferedReader, Frames
from celery_fair.worker.launch.pool import PlainWay, Way
from celery_fair.worker.launch.requests import ShortWay
from celery_fair.worker.queues.amqp import RawDeliveries

logger = logging.getLogger(__name__)
_pool_logger = logging.getLogger("celery.pool")


class Relay:
    """The requests that wait for a thread; as many threads as the executor has.

    Arguments:
        executor: a `concurrent.futures.ThreadPoolExecutor`.
        limit: how many threads it has.
        on_ended: told that requests have ended, if `ended` has been.
    """

    def __init__(self, executor: Any, limit: int, on_ended: Callable[[], object]) -> None:
        self._submit = executor.submit
        self._limit = limit
        self._on_ended = on_ended
        self._waiting: deque[tuple[Any, ...]] = deque()
        self._lock = Lock()
        self._runners = 0
        self._called = False  # a runner is on its way
        self._reports = False  # requests have ended, and nobody was told

    def apply(
        self,
        target: Any,
        args: Any = (),
        kwargs: Any = None,
        callback: Any = None,
        accept_callback: Any = None,
        **_: Any,
    ) -> None:
        """As the pool's own ``on_apply``."""
        with self._lock:
            self._waiting.append((target, args, kwargs, callback, accept_callback))
            call = self._call()
        if call:
            self._call_runner()

    def ended(self) -> None:
        """Say that a request has ended; it is passed on when none is left to begin."""
        with self._lock:
            if self._waiting:
                self._reports = True
                return
        self._on_ended()

    def waits(self) -> bool:
        """Whether a request waits for a thread."""
        return bool(self._waiting)

    def _call(self) -> bool:
        """Whether to call a runner, who then counts as called."""
        call = bool(self._waiting) and not self._called and self._runners < self._limit
        self._called = self._called or call
        return call

    def _run(self) -> None:
        with self._lock:
            self._called = False
            self._runners += 1
        while (request := self._next()) is not None:
            try:
                apply_target(*request)
            except BaseException:  # an executor, too, would keep it to itself
                logger.exception("A request's callback has failed")

    def _next(self) -> tuple[Any, ...] | None:
        with self._lock:
            if not self._waiting:
                self._runners -= 1
                return None
            request = self._waiting.popleft()
            call = self._call()
            news = self._reports and not self._waiting
            self._reports = self._reports and not news
        if call:
            self._call_runner()
        if news:
            self._on_ended()
        return request

    def _call_runner(self) -> None:
        try:
            self._submit(self._run)
        except RuntimeError:  # shut down meanwhile, or the system has no more threads
            with self._lock:
                self._called = False
                if self._runners:  # one of these takes it
                    return
                self._waiting.pop()
            raise


class FastPath(PlainWay):
    """Spares the usual message what need not be."""

    @staticmethod
    def read(broker: Any, hub: Any) -> tuple[RawDeliveries, Callable[[], object]]:
        """Have deliveries put together here; see `Read`."""
        frames = Frames(broker)
        if hub and type(broker.transport) is TCPTransport:
            return frames, BufferedReader(broker, hub, frames)
        return frames, DrainingReader(broker, hub)

    def into(self, pool: Any, freed: Callable[[], object]) -> Way:
        """Return a way into a pool; one in this process is spared what need not be."""
        kind: Any = type(pool)
        if kind is threads.TaskPool:
            relay = Relay(pool.executor, pool.limit, freed)
            return Way(relay.apply, relay.ended, relay.waits)
        if kind is solo.TaskPool and not _pool_logger.isEnabledFor(logging.DEBUG):
            return Way(pool.on_apply, freed, lambda: False)  # which ``apply_async`` would call
        return super().into(pool, freed)

    def requests(self, c: Any) -> ShortWay:
        return FastRequests(c).request
