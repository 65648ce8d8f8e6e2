"""The worker process: started, watched, stopped, and what it made at the broker deleted."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from celery_fair.cli.demo.broker import Broker
from celery_fair.cli.demo.errors import DemoError
from celery_fair.cli.demo.order import FOLDER_VARIABLE, Order
from celery_fair.cli.demo.trace import Record, TraceReader
from celery_fair.cli.interrupt import uninterrupted

__all__ = ["Child", "Setup", "worker"]

_TICK = 0.1
_STALLED = 30.0
"""Seconds without a new record after which the run is given up."""
_WARM_SHUTDOWN = 5  # seconds that a worker is given to end by itself
_LOG_LINES = 15

# What workers tell one another takes seconds at the start, and leaves exchanges behind.
_ALONE = ("--without-gossip", "--without-mingle", "--without-heartbeat")


@dataclass(frozen=True)
class Setup:
    """What the runs of one command have in common."""

    broker: Broker
    pool: str
    concurrency: int


class Child:
    """A ``celery worker``, with its defaults where nothing else is said here."""

    def __init__(self, order: Order, tasks: str, setup: Setup) -> None:
        self._order = order
        command = [sys.executable, "-m", "celery", "-A", tasks, "worker"]
        command += ["-n", "fair-demo@%h", "-P", setup.pool, "-c", str(setup.concurrency)]
        with order.log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, checked options
                [*command, *_ALONE],
                env=os.environ | {FOLDER_VARIABLE: order.folder},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the command, which then stops the worker
            )

    def records(self) -> Iterator[tuple[list[Record], list[Record]]]:
        """Yield what has been published and what has started, again and again as they grow.

        Raises `DemoError` if the worker has ended, or does nothing any more.
        """
        traces = TraceReader(self._order.published), TraceReader(self._order.started)
        published, started = list[Record](), list[Record]()
        last_news = monotonic()
        while True:
            self._tick()
            news = [trace.read() for trace in traces]
            if any(news):
                last_news = monotonic()
            elif monotonic() - last_news > _STALLED:
                raise DemoError(
                    f"nothing has happened for {_STALLED:g} s, after {len(published)} messages"
                    f" published and {len(started)} tasks started. The worker's log:\n{self._log()}"
                )
            published += news[0]
            started += news[1]
            yield published, started

    def stop(self) -> None:
        """Return when nothing is left of it.

        Nobody needs what it still holds. But an event log wants to be closed: then it is asked for
        a warm shutdown, and only after a while told.
        """
        if self._order.event_log is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.terminate()
                self._process.wait(_WARM_SHUTDOWN)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _tick(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            status = self._process.wait(_TICK)
            raise DemoError(
                f"the worker ended early, with status {status}. Its log:\n{self._log()}"
            )

    def _log(self) -> str:
        lines = self._order.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_LINES:])


@contextmanager
def worker(
    setup: Setup,
    tasks: str,
    queues: Sequence[str],
    work: dict[str, Any],
    fair: bool,
    event_log: Path | None,
) -> Iterator[Child]:
    """Run a worker for the time of the block; nothing of it stays, not even after Ctrl-C.

    Arguments:
        tasks: the module of its app.
        queues: their names without the prefix.
        work: the fields of what is to be published.
    """
    broker, log = setup.broker, None if event_log is None else str(event_log)
    with tempfile.TemporaryDirectory(prefix="fair-demo-") as folder, _cleaning(broker, queues):
        order = Order(folder, broker.url, broker.prefix, work, fair, log, os.getpid())
        order.write()
        child = Child(order, tasks, setup)
        try:
            yield child
        finally:
            with uninterrupted():
                child.stop()


@contextmanager
def _cleaning(broker: Broker, queues: Sequence[str]) -> Iterator[None]:
    try:
        yield
    finally:
        with uninterrupted():
            broker.clean(queues)
