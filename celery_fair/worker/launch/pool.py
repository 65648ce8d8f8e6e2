"""The worker's pool, and jobs on their way to the processes of a prefork pool.

Celery's event loop writes a job to a process some turns after it was handed over. When the worker
stops, or has lost the broker, before that, the job is thrown away: "the tasks will be redelivered
by the broker anyway". Not if they were acknowledged; and what is redelivered counts as one that may
have started. So a job is written at once, which a process with nothing to do allows, and before
anything is thrown away the processes are waited for to accept what they were sent.
"""

import logging
import select
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from time import monotonic, sleep
from typing import Any, NamedTuple, Protocol

from billiard.einfo import ExceptionInfo
from celery.concurrency import solo
from celery.concurrency import thread as threads
from celery.exceptions import Terminated, TimeLimitExceeded, WorkerLostError, WorkerTerminate

from celery_fair.worker.launch.in_flight import InFlight
from celery_fair.worker.launch.requests import ShortWay
from celery_fair.worker.queues.sources import Read, read_plainly

logger = logging.getLogger(__name__)

_PATIENCE = 5.0
"""Seconds for processes, or threads, to begin what they were handed; one that has died never does.
Of threads there is one for each slot."""

_BOOT = 300.0
"""Seconds for processes to become ready for it, at the most: they may load a model first."""

_BROKEN_OFF = (Terminated, TimeLimitExceeded, WorkerLostError, SystemExit, KeyboardInterrupt)

_FAILED = object()


class BreakWatch(Protocol):
    """Is told by which processes work is done, and of what was broken off."""

    def accepted(self, pid: int) -> None:
        """A process of the pool's has begun a request."""

    def broken_off(self, request: Any, exc: BaseException) -> None:
        """A request's process was stopped in its midst, or has died."""


class Way(NamedTuple):
    """Into a pool."""

    apply: Callable[..., Any]
    """Like the pool's ``apply_async``."""
    ended: Callable[[], object]
    """To be called when a request has ended."""
    waits: Callable[[], bool]
    """Whether something waits for a thread, and is thrown away if the pool stops just now."""


class ObservedPool:
    """The worker's pool, with each request's beginning and end told to `InFlight`.

    Anything else is the pool's own.

    Arguments:
        way: into the pool.
        watches: told of what was broken off.
        quiet: within it, ends of requests start nothing.

    Attributes:
        is_solo: whether tasks run in the main process, one within another's turn.
    """

    def __init__(
        self,
        pool: Any,
        in_flight: InFlight,
        way: Way,
        watches: Sequence[BreakWatch] = (),
        quiet: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._observed = pool
        self.is_solo = isinstance(pool, solo.TaskPool)
        self._in_flight = in_flight
        self._apply = way.apply
        self._waits = way.waits
        self._watches = tuple(watches)
        self._quiet = quiet

    def __getattr__(self, name: str) -> Any:
        return getattr(self._observed, name)

    def grow(self, n: int = 1) -> None:
        """As the pool's own, but at once: prefork would start processes within five seconds."""
        self._observed.grow(n)
        self.maintain_pool()

    def maintain_pool(self) -> None:
        """As the pool's own, by whatever `patches.maintain_quietly` has put in its place."""
        getattr(self._pool, "maintain_pool", self._observed.maintain_pool)()

    def shrink(self, n: int = 1) -> None:
        """As the pool's own, but what runs is let be."""
        with self._quiet():
            shrink(self._observed, n)

    def terminate_job(self, pid: int, signal: Any = None) -> None:
        """As the pool's own. Solo's raises that it cannot, amid the task: that would have failed.

        Raises:
            WorkerTerminate: it is a solo pool, where the worker ends amid the task.
        """
        if self.is_solo:
            raise WorkerTerminate(1)
        self._observed.terminate_job(pid, signal)

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
        remove = self._in_flight.remove

        def on_end(result: Any) -> None:
            if isinstance(result, ExceptionInfo) and error_callback:
                # The task has raised SystemExit, or another that is no `Exception`. Celery's pools
                # of threads, greenlets and the process itself take that for a result; prefork's
                # for an error, which it is.
                on_error(result)
                return
            seconds = None
            try:
                if result is not _FAILED and result[0] is not False:  # of a killed greenlet
                    _note(request, callback, result)
                    _, _, seconds = result  # whether it failed, what it returned, its run time
            finally:
                remove(request, seconds)

        def on_error(error: Any) -> None:
            try:
                error_callback(error)
            finally:
                self._failed(request, error)
                remove(request)

        def on_timeout(soft: bool, timeout: float) -> None:
            try:
                timeout_callback(soft, timeout)
            finally:
                if not soft:
                    remove(request)

        if error_callback and not self._observed.uses_semaphore:
            target = _guarded(target, error_callback, request, () if self.is_solo else SystemExit)
        try:
            return self._apply(
                target,
                args,
                kwargs,
                callback=on_end,
                error_callback=on_error if error_callback else None,
                timeout_callback=on_timeout if timeout_callback else None,
                **self._watched(options),
            )
        except BaseException:  # whatever ends the hand-over, the slot is free again; then re-raised
            remove(request)
            raise

    def _watched(self, options: dict[str, Any]) -> dict[str, Any]:
        """Options with which we hear which process, of a pool that has some, begins a request."""
        if not (self._watches and self._observed.uses_semaphore):
            return options
        accept = options["accept_callback"]

        def on_accept(pid: int, at: Any) -> None:
            for watch in self._watches:
                watch.accepted(pid)
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
        write_now(self._observed)

    def close(self) -> None:
        """As the pool's own, but what waits for a process begins: later, none is replaced."""
        with self._quiet():
            settle(self._observed)
        self._observed.close()

    def flush(self) -> None:
        """As the pool's own, if it has one: that throws away what no process has accepted.

        Celery calls it when the connection is lost, before anybody else here knows of that.
        """
        with self._quiet():
            settle(self._observed)
            if self._observed.flush is not None:
                self._observed.flush()

    def settle(self) -> None:
        """Wait until threads have what was handed over; processes have it by `close` or `flush`.

        A pool that stops throws away the rest (since Celery 5.7), which may be acknowledged.
        """
        until = monotonic() + _PATIENCE
        while self._waits() and monotonic() < until:
            sleep(0.001)


def _note(request: Any, callback: Callable[[Any], object], result: Any) -> None:
    """Have Celery take note of a result. A task's MemoryError it raises again, to end all."""
    try:
        callback(result)
    except MemoryError:
        request.reject(requeue=False)


def _guarded(target: Any, error_callback: Any, request: Any, leaves: Any) -> Any:
    """What prefork does: an error of Celery's own, around the task's code, ends the task alone.

    A malformed message can cause one. In a thread or greenlet the request would then never end;
    in the main process (solo) it would end the worker. Celery may fail to take note of it, too.

    Arguments:
        leaves: kinds of SystemExit that are to end the task as any other does. Celery's pools let
            `WorkerShutdown` and `WorkerTerminate` by; in a thread, nobody ever hears of those.
    """

    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return target(*args, **kwargs)
        except leaves as exc:
            raise SystemExit(*exc.args) from exc
        except Exception:  # noqa: BLE001 - handed on
            try:
                error_callback(ExceptionInfo())
            except Exception:  # handlers and options of the task may raise anything
                logger.exception("Celery could not take note of the failure of %s", request.id)
                request.reject(requeue=False)
            return _FAILED

    return guarded


# Prefork's processes ---------------------------------------------------------------------------


def write_now(pool: Any) -> None:
    """Write the jobs that wait in Celery's buffer, to processes that have nothing to do.

    Arguments:
        pool: Celery's, of any kind; of others than prefork, nothing waits.
    """
    inner, hub = _parts(pool)
    if hub is not None and inner.outbound_buffer:
        idle = inner._all_inqueues - inner._active_writes - inner._busy_workers
        hub.consolidate_callback(list(idle))


def settle(pool: Any, written: bool = False) -> None:
    """Wait until each job that was handed over is accepted by a process, or has no process.

    A job may have been written to a process that was about to exit, after its last task: another
    is started, while the pool is not closed, and gets it. One that starts is waited for, though a
    RabbitMQ that hears nothing for a minute may take the connection for lost: so that, and no job.

    Arguments:
        written: wait only for those that a process has been given; others may have to wait for one.
    """
    inner, hub = _parts(pool)
    if hub is None:
        return
    until = monotonic() + _PATIENCE
    longest = until + _BOOT
    while monotonic() < until and any(
        not job._accepted and (job._write_to or not written) for job in list(inner._cache.values())
    ):
        if not written:
            inner.maintain_pool()
            write_now(pool)
            up = inner._all_inqueues
            if any(each.inqW_fd not in up and each._is_alive() for each in inner._pool):
                until = min(monotonic() + _PATIENCE, longest)
        for writer in list(inner._active_writers):
            _advance(writer)
        answers = select.poll()
        for process in inner._pool:
            answers.register(process.outqR_fd, select.POLLIN)
        for fd, _ in answers.poll(50):
            _call(hub, fd, inner.handle_result_event)


def shrink(pool: Any, n: int) -> None:
    """Take so many processes with nothing to do from a pool of any kind.

    Billiard takes a process that was given a job, and has not answered yet, for one of these; and
    it gives jobs to one that was told to end, until that has ended. Both jobs would be broken off.

    Raises:
        ValueError: there are not so many; those that there were are taken.
    """
    settle(pool, written=True)
    try:
        pool.shrink(n)
    finally:
        inner, hub = _parts(pool)
        if hub is not None:
            ending = (each for each in inner._pool if each._controlled_termination)
            inner._busy_workers.update(each.inqW_fd for each in ending)


def _parts(pool: Any) -> tuple[Any, Any]:
    """Return the inner pool and its event loop, or twice None if it is no prefork pool on one.

    Kombu forgets which is the current one when that is reset, as at each connection's loss.
    """
    inner = getattr(pool, "_pool", None)
    remove = getattr(inner, "hub_remove", None)
    return (inner, remove.__self__) if remove else (None, None)


def _call(hub: Any, fd: int, handler: Callable[[int], object]) -> None:
    """Call who reads an answer: its handler, or a generator that has read a part of it."""
    reader, _ = hub.readers.get(fd, (handler, ()))
    if hasattr(reader, "send"):
        _advance(reader)
    else:
        handler(fd)


def _advance(generator: Any) -> None:
    with suppress(StopIteration, OSError, EOFError):
        next(generator)


class PlainWay:
    """The way of a message that py-amqp, kombu and Celery go; `fast_path` has a shorter one."""

    read: Read = staticmethod(read_plainly)

    def into(self, pool: Any, freed: Callable[[], object]) -> Way:
        """Return the way into a pool, here its own.

        Arguments:
            freed: what is to be called when a request has ended.
        """
        is_threads = isinstance(pool, threads.TaskPool)
        return Way(
            pool.apply_async,
            freed,
            lambda: is_threads and not pool.executor._work_queue.empty(),
        )

    def requests(self, c: Any) -> ShortWay:
        """Return what makes requests in Celery's place, on a new connection of its consumer."""
        return lambda message: None
