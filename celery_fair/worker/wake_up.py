"""What wakes the dispatcher: soon, later, and from other threads.

Whoever has something to report asks for it: a delivery, a free slot, a change of settings. The
wake-up knows nobody; who wants to be woken listens, for as long as a connection lasts.

With an event loop everything runs on the loop's thread, as a rule from a *reader* callback: who
asks writes to a pipe, and the loop finds it readable. Kombu's loop polls after what was called
soon, after its timers and after its ticks without looking for what these have called soon in turn,
so that from there an acknowledgement, or a task written to a prefork child, could sit until the
next event, seconds later. A slot that becomes free is filled at once, wherever that is; a turn of
the loop is what a process would wait for its next task. If something was called soon meanwhile, the
loop has one more turn. But a loop that is busy most of the time does more by doing things together:
it fills slots once a turn.

Without one (gevent, eventlet, Windows, memory broker) Celery's synchronous loop blocks until the
broker has something. On AMQP it is made to wait for the broker's socket *or* for this, so that the
loop's greenlet alone dispatches: the answer to a call on a channel must not be read by another.
Kombu's emulated brokers have no single socket to wait for, and no answers that could be mixed up;
there, whoever reports something runs the dispatcher itself. If that fails, it is the loop that has
to know: the connection may be lost, and what was broken off must not go on.
"""

import select
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from threading import Lock, get_ident
from time import monotonic, thread_time
from typing import Any

from amqp import RecoverableConnectionError

from celery_fair.worker.signals import Handlers

_TURN = 0.01
"""Seconds after which the event loop gets its turn: acks go out and deliveries come in there."""

_BUSY = 0.5
"""The part of its time that a loop computes, from which on it is short of it: processes and broker
want processors, too."""

_SPAN = 0.02
"""Seconds for which that is measured."""

_MOST = 500
"""Deliveries taken in at once, after which the dispatcher gets its turn."""

NO_WAIT = 0.0001
"""Seconds; py-amqp spins on a timeout of zero unless an event loop drives it."""


class WakeUp(ABC):
    """Asks for the dispatcher's run.

    Attributes:
        pending: whether there is something that the listener has not seen yet.
        hurried: whether who calls is short of time: things are done together then, and none ahead.
        handlers: those of signals, which no call is interrupted by.

    Arguments:
        timer: Celery's.
    """

    def __init__(self, timer: Any) -> None:
        self._timer = timer
        self._alarm: Any = None
        self._alarm_at = 0.0
        self._error: Exception | None = None  # to be raised in the loop
        self.pending = self.hurried = False
        self.handlers = Handlers()
        self._busy = Lock()
        self._by = 0  # the thread, or greenlet, that calls
        self._run: Callable[[float], bool] | None = None

    def listen(self, run: Callable[[float], bool]) -> None:
        """Have this called when it is asked for, until what time, one call after the other.

        It returns whether it has done all that there was to do.
        """
        self._forget_alarm()  # Celery may have cleared its timer with the last connection
        self._error = None
        self._run = run

    def leave(self) -> None:
        """Call nobody, until somebody listens again."""
        self._run = None

    def answer(self) -> None:
        """Call who listens. Safe to call at any time, from any thread."""
        self.pending = True
        until = monotonic() + _TURN
        while self.pending and self._busy.acquire(blocking=False):
            try:
                self._by = get_ident()
                self.pending = False
                with self.handlers:
                    if (run := self._run) is not None and not run(until):
                        self.later()
                        return
            finally:
                self._by = 0
                self._busy.release()

    def settle(self) -> None:
        """Wait for the call that is under way, if it is another thread's or greenlet's."""
        if self._by != get_ident():
            with self._busy:
                pass

    def held(self) -> AbstractContextManager[None]:
        """Within it, slots that become free are filled by nobody; the next run does."""
        return nullcontext()

    def freed(self) -> None:
        """A slot is free: the run that is under way looks again, or one is asked for."""
        self.pending = True
        if not self._busy.locked():  # who leaves unlocks first, and then looks at `pending`
            self.later()

    def arrived(self) -> None:
        """A delivery has come, on the thread that owns the channels."""

    def at(self, when: float) -> None:
        """Ask for a run at a time of the monotonic clock, unless an earlier one is set."""
        if self._alarm is not None:
            if self._alarm_at <= when:
                return
            self._alarm.cancel()
        self._alarm_at = when
        self._alarm = self._timer.call_after(max(0.0, when - monotonic()), self._on_time)

    def _on_time(self) -> None:
        self._alarm = None
        self.soon()

    def _forget_alarm(self) -> None:
        alarm, self._alarm = self._alarm, None
        if alarm is not None:
            alarm.cancel()

    @abstractmethod
    def soon(self) -> None:
        """Ask for a run. From any thread or greenlet."""

    def later(self) -> None:
        """Ask for a run, when others had their turn."""
        self.soon()

    def interrupt(self) -> None:
        """End the loop's wait, if it can be; ask nobody: a signal's handler may not wait."""

    def close(self) -> None:
        """Wake nobody any more."""
        self.leave()
        self._forget_alarm()


class Waker:
    """Rings, once until it is answered, for whoever waits for a socket."""

    def __init__(self) -> None:
        self.socket, self._button = socket.socketpair()
        self.socket.setblocking(False)
        self._button.setblocking(False)
        self._rings = False

    def ring(self) -> None:
        """From any thread or greenlet."""
        if not self._rings:
            self._rings = True
            with suppress(OSError):  # full: it rings already; closed: nobody listens any more
                self._button.send(b"\0")

    def answer(self) -> None:
        """It has been heard, and is silent."""
        with suppress(BlockingIOError):
            self.socket.recv(64)
        self._rings = False

    def close(self) -> None:
        """Ring no more."""
        self.socket.close()
        self._button.close()


class HubWakeUp(WakeUp):
    """Calls on the thread of kombu's event loop."""

    def __init__(self, hub: Any) -> None:
        super().__init__(hub.timer)
        self._hub = hub
        self._measured = self._spent = 0.0
        self._thread = 0
        self._waker = Waker()

    def listen(self, run: Callable[[float], bool]) -> None:
        super().listen(run)
        self._thread = get_ident()
        # Again after each of the loop's resets.
        self._hub.add_reader(self._waker.socket.fileno(), self._on_readable)

    def soon(self) -> None:
        self._waker.ring()

    arrived = interrupt = soon

    @contextmanager
    def held(self) -> Iterator[None]:
        held = self._busy.acquire(blocking=False)
        try:
            yield
        finally:
            if held:
                self._busy.release()
                self.soon()

    def freed(self) -> None:
        self.pending = True
        if self._busy.locked():
            return
        if self.hurried or get_ident() != self._thread:
            self.soon()
            return
        try:
            self.answer()
        except Exception as exc:  # noqa: BLE001 - raised in the loop: the pool would swallow it
            self._error = exc
        if self._error or self._hub._ready:
            self.soon()

    def close(self) -> None:
        super().close()
        with suppress(KeyError, ValueError, OSError):
            self._hub.remove_reader(self._waker.socket.fileno())
        self._waker.close()

    def _on_readable(self) -> None:
        self._waker.answer()
        if self._error is not None:
            raise self._error
        self._measure()
        self.answer()

    def _measure(self) -> None:
        now = monotonic()
        if now - self._measured >= _SPAN:
            spent = thread_time()
            self.hurried = spent - self._spent > _BUSY * (now - self._measured)
            self._measured, self._spent = now, spent


class SyncWakeUp(WakeUp):
    """Calls from the thread or greenlet that has asked."""

    def soon(self) -> None:
        try:
            self.answer()
        except Exception as exc:  # noqa: BLE001 - raised in the loop
            self._error = exc
            self.leave()

    def later(self) -> None:
        self._timer.call_after(0, self.soon)

    def wait(self, connection: Any, timeout: float | None) -> None:
        """Block until the broker has sent something, and take it in.

        Raises:
            TimeoutError: nothing came within `timeout` seconds.
            Exception: whoever was called has failed, on another thread or greenlet.
        """
        if self._error is not None:
            raise self._error
        self.drain(connection, timeout)

    def drain(self, connection: Any, timeout: float | None) -> None:
        """Take in what the broker sends next.

        Raises:
            TimeoutError: nothing came within `timeout` seconds.
        """
        connection.drain_events(timeout=timeout)


class SocketWakeUp(WakeUp):
    """Ends the wait of a synchronous loop on an AMQP connection; that loop then calls."""

    def __init__(self, timer: Any) -> None:
        super().__init__(timer)
        self._waker = Waker()

    def soon(self) -> None:
        self._waker.ring()

    interrupt = soon

    def arrived(self) -> None:
        # Perhaps amid a run that looks for no more: a call on a channel takes in, until its
        # answer comes, whatever comes before. Of that the socket would say nothing.
        self.pending = True

    def wait(self, connection: Any, timeout: float | None) -> None:
        """Block until the broker has sent something or a run is asked for, for `timeout` seconds.

        Raises:
            RecoverableConnectionError: the connection is lost.
        """
        sock = _connected(connection).sock
        if getattr(sock, "pending", int)():  # decrypted already
            return
        ready, _, _ = select.select([sock, self._waker.socket], [], [], timeout)
        if self._waker.socket in ready:
            self._waker.answer()

    def drain(self, connection: Any, timeout: float | None) -> None:
        """Take in what the broker sends next.

        Raises:
            TimeoutError: nothing came within `timeout` seconds.
            RecoverableConnectionError: the connection is lost.
        """
        _connected(connection).drain_events(timeout=timeout)

    def close(self) -> None:
        super().close()
        self._waker.close()


def _connected(connection: Any) -> Any:
    """Return what kombu's connection is by, unless that is lost.

    If it is (a write that failed, of an acknowledgement say, may have marked it), kombu would
    connect again, to where nothing is consumed.
    """
    if not connection.connected:
        raise RecoverableConnectionError("the broker's connection is lost")
    return connection.connection


def wake_up_of(hub: Any, timer: Any, pushes: bool) -> HubWakeUp | SyncWakeUp | SocketWakeUp:
    """Return the wake-up that fits the worker's loop and a broker that pushes messages or not."""
    if hub:
        return HubWakeUp(hub)
    return SocketWakeUp(timer) if pushes else SyncWakeUp(timer)


class Interruptible:
    """A connection for Celery's synchronous loop, whose ``drain_events`` drains, then answers.

    All that the socket holds is taken in before anything is chosen. It does not block while the
    dispatcher has more to start.
    """

    def __init__(self, connection: Any, wake_up: SyncWakeUp | SocketWakeUp) -> None:
        self._connection = connection
        self._wake_up = wake_up

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def drain_events(self, timeout: float | None = None) -> None:
        """Wait for an event, take in what else is there, run the dispatcher.

        Raises:
            TimeoutError: nothing came within `timeout` seconds.
            Exception: the connection is lost.
        """
        connection, wake_up = self._connection, self._wake_up
        wake_up.answer()
        wake_up.wait(connection, NO_WAIT if wake_up.pending else timeout)
        with suppress(TimeoutError):
            for _ in range(_MOST):
                wake_up.drain(connection, NO_WAIT)
        wake_up.answer()

    def heartbeat_check(self, rate: float) -> None:
        """Beat, on a connection that is not lost.

        Celery's timer goes on with it after the connection's end. Kombu would connect again, and if
        the broker refuses, sleep for two seconds; under gevent the whole process does, as kombu is
        imported before it is patched.

        Raises:
            RecoverableConnectionError: it is lost.
        """
        _connected(self._connection)
        self._connection.heartbeat_check(rate)
