"""Signs of life of a process whose own thread may be at work for hours."""

from collections.abc import Callable
from threading import Event, Thread

__all__ = ["Heartbeat"]

_PATIENCE = 5.0
"""Seconds to wait for a beat that is under way, which takes microseconds."""


class Heartbeat:
    """Calls something again and again, from a thread of its own.

    Arguments:
        every: seconds between two calls.
    """

    def __init__(self, every: float, beat: Callable[[], object]) -> None:
        self._every, self._beat = every, beat
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            self._beat()

    def stop(self) -> None:
        """Call it no more: not after this has returned."""
        self._stopped.set()
        self._thread.join(_PATIENCE)
