"""The worker process: started, watched, stopped."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from celery_fair.cli.demo.errors import DemoError
from celery_fair.cli.demo.order import FOLDER_VARIABLE, Order
from celery_fair.cli.interrupt import uninterrupted

__all__ = ["Child", "worker_process"]

_TICK = 0.1
_WARM_SHUTDOWN = 5  # seconds that a worker is given to end by itself
_LOG_LINES = 15

# What workers tell one another takes seconds at the start, and leaves exchanges behind.
_ALONE = ("--without-gossip", "--without-mingle", "--without-heartbeat")


class Child:
    """A ``celery worker`` on the demo's app."""

    def __init__(self, order: Order, pool: str, concurrency: int) -> None:
        self._order = order
        command = [sys.executable, "-m", "celery", "-A", "celery_fair.cli.demo.app", "worker"]
        command += ["-n", "fair-demo@%h", "-P", pool, "-c", str(concurrency), "-l", "WARNING"]
        with order.log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, checked options
                [*command, *_ALONE],
                env=os.environ | {FOLDER_VARIABLE: order.folder},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the command, which then stops the worker
            )

    def tick(self) -> None:
        """Let a moment pass; raise `DemoError` if the worker has ended."""
        with suppress(subprocess.TimeoutExpired):
            status = self._process.wait(_TICK)
            raise DemoError(f"the worker ended early, with status {status}. Its log:\n{self.log()}")

    def log(self) -> str:
        """Return the last lines of what the worker printed."""
        lines = self._order.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_LINES:])

    def stop(self) -> None:
        """Ask for a warm shutdown; insist after a while. Returns when nothing is left of it."""
        with suppress(subprocess.TimeoutExpired):
            self._process.terminate()
            self._process.wait(_WARM_SHUTDOWN)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def worker_process(order: Order, pool: str, concurrency: int) -> Iterator[Child]:
    """Run a worker for the time of the block."""
    child = Child(order, pool, concurrency)
    try:
        yield child
    finally:
        with uninterrupted():
            child.stop()
