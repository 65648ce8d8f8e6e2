"""How the dispatcher is called: soon, later, and from other threads.

With an event loop everything runs on the loop's thread, and always from a *reader* callback: the
news rings a pipe, and the loop finds it readable. Kombu's loop polls after what was called soon,
after its timers and after its ticks without looking for what these have called soon in turn, so
that from there an acknowledgement, or a task written to a prefork child, could sit until the
next event, seconds later.

Without one (memory broker, gevent, eventlet) Celery's synchronous loop blocks in ``drain_events``;
whoever has news runs the dispatcher itself.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

__all__ = ["HubWakeup", "SyncWakeup"]


class HubWakeup:
    """Calls `run` on the thread of kombu's event loop."""

    def __init__(self, hub: Any, run: Callable[[], object]) -> None:
        self._hub = hub
        self._run = run
        self._rung = False
        self._timer: Any = None
        self._when = 0.0
        self._bell, self._button = os.pipe()
        os.set_blocking(self._bell, False)
        os.set_blocking(self._button, False)

    def register(self) -> None:
        """Listen on the loop; again after each of its resets."""
        self._timer = None
        self._hub.add_reader(self._bell, self._on_ring)

    def soon(self) -> None:
        """Call `run` in the loop's next turn. From any thread."""
        if not self._rung:
            self._rung = True
            with suppress(OSError):  # full: it rings already; closed: nobody listens any more
                os.write(self._button, b"\0")

    def at(self, when: float) -> None:
        """Call `run` at a time of the monotonic clock, unless an earlier call is set."""
        if self._timer is not None:
            if self._when <= when:
                return
            self._timer.cancel()
        self._when = when
        self._timer = self._hub.call_later(max(0.0, when - monotonic()), self._on_time)

    def close(self) -> None:
        """Stop listening."""
        if self._timer is not None:
            self._timer.cancel()
        with suppress(KeyError, ValueError, OSError):
            self._hub.remove_reader(self._bell)
        os.close(self._bell)
        os.close(self._button)

    def _on_time(self) -> None:
        self._timer = None
        self.soon()

    def _on_ring(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._bell, 64)
        self._rung = False
        self._run()


class SyncWakeup:
    """Calls `run` from the thread or greenlet that has the news."""

    def __init__(self, timer: Any, run: Callable[[], object]) -> None:
        self._timer = timer
        self._run = run

    def register(self) -> None:
        """Nothing to listen on."""

    def soon(self) -> None:
        """Call `run` now."""
        self._run()

    def at(self, when: float) -> None:
        """Call `run` at a time of the monotonic clock."""
        self._timer.call_after(max(0.0, when - monotonic()), self._run)

    def close(self) -> None:
        """Nothing to close."""
