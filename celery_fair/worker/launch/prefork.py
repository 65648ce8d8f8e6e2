"""Jobs on their way to the processes of a prefork pool.

Celery's event loop writes a job to a process some turns after it was handed over. When the worker
stops, or has lost the broker, before that, the job is thrown away: "the tasks will be redelivered
by the broker anyway". Not if they were acknowledged; and what is redelivered counts as one that may
have started. So a job is written at once, which a process with nothing to do allows, and before
anything is thrown away the processes are waited for to accept what they were sent.
"""

import select
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

from kombu.asynchronous import get_event_loop

__all__ = ["settle", "shrink", "write_now"]

_PATIENCE = 5.0
"""Seconds for the processes to accept their jobs; one that has died never does."""


def write_now(pool: Any) -> None:
    """Write the jobs that wait in Celery's buffer, to processes that have nothing to do.

    Arguments:
        pool: Celery's, of any kind; of others than prefork, nothing waits.
    """
    inner, hub = _parts(pool)
    if hub is not None and inner.outbound_buffer:
        idle = inner._all_inqueues - inner._active_writes - inner._busy_workers
        if idle:
            hub.consolidate_callback(list(idle))


def settle(pool: Any, written: bool = False) -> None:
    """Wait until each job that was handed over is accepted by a process, or has no process.

    Arguments:
        written: wait only for those that a process has been given; others may have to wait for one.
    """
    inner, hub = _parts(pool)
    if hub is None:
        return
    until = monotonic() + _PATIENCE
    while monotonic() < until and any(
        not job._accepted and (job._write_to or not written) for job in list(inner._cache.values())
    ):
        if not written:
            write_now(pool)
        for writer in list(inner._active_writers):
            _advance(writer)
        answers = select.poll()
        for fd in inner._fileno_to_outq:
            answers.register(fd, select.POLLIN)
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
    """Return the inner pool and the event loop, or twice None if it is no prefork pool on one."""
    inner, hub = getattr(pool, "_pool", None), get_event_loop()
    return (inner, hub) if hub and hasattr(inner, "outbound_buffer") else (None, None)


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
