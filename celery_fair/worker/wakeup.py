"""How the dispatcher is called: soon, later, and from other threads.

With an event loop everything runs on the loop's thread, and always from a *reader* callback: the
news rings a pipe, and the loop finds it readable. Kombu's loop polls after what was called soon,
after its timers and after its ticks without looking for what these have called soon in turn, so
that from there an acknowledgement, or a task written to a prefork child, could sit until the
next event, seconds later.

Without one (gevent, eventlet, Windows, memory broker) Celery's synchronous loop blocks until the
broker has something. On AMQP it is made to wait for the broker's socket *or* a bell, so that the
loop's greenlet alone dispatches: the answer to a call on a channel must not be read by another.
Kombu's emulated brokers have no single socket to wait for, and no answers that could be mixed up;
there, whoever has news runs the dispatcher itself.
"""

import os
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

__all__ = ["BellWakeup", "HubWakeup", "SyncWakeup"]


class Alarm:
    """Rings at the earliest of the times that it was set to, and then at none of them any more.

    Arguments:
        timer: Celery's; it rings on the timer's thread.
        ring: what to call.
    """

    def __init__(self, timer: Any, ring: Callable[[], object]) -> None:
        self._timer = timer
        self._ring = ring
        self._entry: Any = None
        self._when = 0.0

    def set(self, when: float) -> None:
        """Ring at a time of the monotonic clock, unless it will ring earlier."""
        if self._entry is not None:
            if self._when <= when:
                return
            self._entry.cancel()
        self._when = when
        self._entry = self._timer.call_after(max(0.0, when - monotonic()), self._on_time)

    def cancel(self) -> None:
        """Ring no more, until it is set again."""
        entry, self._entry = self._entry, None
        if entry is not None:
            entry.cancel()

    def _on_time(self) -> None:
        self._entry = None
        self._ring()


class HubWakeup:
    """Calls `run` on the thread of kombu's event loop."""

    def __init__(self, hub: Any, run: Callable[[], object]) -> None:
        self._hub = hub
        self._run = run
        self._rung = False
        self._alarm = Alarm(hub.timer, self.soon)
        self._bell, self._button = os.pipe()
        os.set_blocking(self._bell, False)
        os.set_blocking(self._button, False)

    def register(self) -> None:
        """Listen on the loop; again after each of its resets."""
        self._alarm.cancel()
        self._hub.add_reader(self._bell, self._on_ring)

    def soon(self) -> None:
        """Call `run` in the loop's next turn. From any thread."""
        if not self._rung:
            self._rung = True
            with suppress(OSError):  # full: it rings already; closed: nobody listens any more
                os.write(self._button, b"\0")

    later = soon

    def at(self, when: float) -> None:
        """Call `run` at a time of the monotonic clock, unless an earlier call is set."""
        self._alarm.set(when)

    def close(self) -> None:
        """Stop listening."""
        self._alarm.cancel()
        with suppress(KeyError, ValueError, OSError):
            self._hub.remove_reader(self._bell)
        os.close(self._bell)
        os.close(self._button)

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
        self._alarm = Alarm(timer, run)

    def register(self) -> None:
        """Nothing to listen on."""

    def soon(self) -> None:
        """Call `run` now."""
        self._run()

    def later(self) -> None:
        """Call `run` when others had their turn."""
        self._timer.call_after(0, self._run)

    def at(self, when: float) -> None:
        """Call `run` at a time of the monotonic clock, unless an earlier call is set."""
        self._alarm.set(when)

    def wait(self, connection: Any, timeout: float | None) -> None:
        """Block until the broker has sent something, and take it in.

        Raises:
            TimeoutError: nothing came within `timeout` seconds.
        """
        connection.drain_events(timeout=timeout)

    def close(self) -> None:
        """Leave no call set."""
        self._alarm.cancel()


class BellWakeup:
    """Ends the wait of a synchronous loop on an AMQP connection; that loop then dispatches."""

    def __init__(self, timer: Any) -> None:
        self._alarm = Alarm(timer, self.soon)
        self._rung = False
        self._bell, self._button = socket.socketpair()
        self._bell.setblocking(False)
        self._button.setblocking(False)

    def register(self) -> None:
        """The loop listens whenever it waits."""

    def soon(self) -> None:
        """End the loop's wait, or its next one. From any thread or greenlet."""
        if not self._rung:
            self._rung = True
            with suppress(OSError):  # full: it rings already; closed: nobody listens any more
                self._button.send(b"\0")

    later = soon

    def at(self, when: float) -> None:
        """The same, at a time of the monotonic clock, unless an earlier one is set."""
        self._alarm.set(when)

    def wait(self, connection: Any, timeout: float | None) -> None:
        """Block until the broker has sent something or the bell rings, for `timeout` seconds."""
        sock = connection.connection.sock
        if sock is None or getattr(sock, "pending", int)():  # gone; or decrypted already
            return
        ready, _, _ = select.select([sock, self._bell], [], [], timeout)
        if self._bell in ready:
            self._bell.recv(64)
            self._rung = False

    def close(self) -> None:
        """Stop listening."""
        self._alarm.cancel()
        self._bell.close()
        self._button.close()
