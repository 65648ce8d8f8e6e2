"""What the worker writes into the event log, and when.

Starts and ends are written by the process that does the work, around it: under prefork that is a
child, whose intent survives it. What the child cannot know of the message travels with the request,
as `NOTE`. All else is the main process's: the end of a task whose process did not live to write it,
dead letters, and the state of the queues. Signs of life each process gives itself.
"""

import logging
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event, Thread
from time import monotonic, monotonic_ns, time_ns
from typing import Any

from celery import signals
from celery.exceptions import ImproperlyConfigured, Terminated, TimeLimitExceeded

from celery_fair.brokers.depths import Depths
from celery_fair.brokers.payload import is_redelivered
from celery_fair.core.chooser import Chooser
from celery_fair.eventlog import EventLog, Policy, host_folder, sweep
from celery_fair.headers import FAIR_KEY, PUBLISHED
from celery_fair.settings import Settings
from celery_fair.tasks import NonRepeatableTask
from celery_fair.worker.letters import message_dead_lettered
from celery_fair.worker.observe import records
from celery_fair.worker.observe.queue_settings import QueueSettings
from celery_fair.worker.observe.queue_states import QueueStates
from celery_fair.worker.queues.open_feeds import OpenFeeds

logger = logging.getLogger(__name__)

_BEGUN = "fair_begun"
"""The one of its attempt, as the log has it, and when it began, on the monotonic clock in ns."""

_VERSION = version("celery-fair")

_SAMPLE = 1.0
_HEARTBEAT = 10.0
_SWEEP = 10.0

_BEAT_TAKES = 5.0
"""Seconds to wait for a beat that is under way, which takes microseconds."""


class Recorder:
    """Of one worker, in all of its processes.

    Arguments:
        log: takes the records.
        queues: writes down what state they are in.
        shared: writes down what they are shared by.
        settings: of the app.
        c: Celery's consumer.
    """

    def __init__(
        self,
        log: EventLog,
        queues: QueueStates,
        shared: QueueSettings,
        settings: Settings,
        c: Any,
    ) -> None:
        self.log = log
        self.queues = queues
        self._shared = shared
        self._settings = settings
        self._c = c
        self._timers: list[Any] = []
        self._ends = Event()
        self._beats: Thread | None = None  # made in the process that it is of
        self._is_written = True
        self._children: set[int] = set()
        for signal, receiver in (
            (signals.task_prerun, self._on_start),
            (signals.task_postrun, self._on_end),
            (message_dead_lettered, self._on_dead_letter),
            (signals.worker_process_init, self._on_process),
            (signals.worker_process_shutdown, self._on_process_end),
            (signals.worker_shutdown, self._on_worker_end),
        ):
            signal.connect(receiver)
        self._life("boot")
        self._sweep()

    # The main process ---------------------------------------------------------

    def start(self) -> None:
        """Give signs of life, on a new connection."""
        timer, soon = self._c.timer, self._c.call_soon
        self._timers = [
            timer.call_repeatedly(_SAMPLE, soon, (self._look,)),
            timer.call_repeatedly(_HEARTBEAT, soon, (self._live,)),
            timer.call_repeatedly(_SWEEP, self._sweep),
        ]
        self._life("heartbeat")
        self.queues.start()
        self._shared.look()
        soon(self._look)

    def stop(self) -> None:
        """Give no more until the next start."""
        for timer in self._timers:
            timer.cancel()
        self._timers = []
        self.queues.stop()

    def _look(self) -> None:
        self._shared.look()
        self.queues.look()

    def note(self, request: Any) -> None:
        """A request is about to be handed to the pool."""
        message = request.message
        request.request_dict[records.NOTE] = (
            message.feed.name,
            time_ns() // 1000 - int((monotonic() - message.arrived) * 1e6),
            is_redelivered(message),
            message.cost_key,
            message.cost,
        )

    def admitted(self, request: Any) -> bool:
        """Write that a request's task may start; say whether that was possible."""
        fields = {
            "id": str(request.id),
            "retries": records.whole(request.request_dict.get("retries")) or 0,
            "task": str(request.task.name),
            "queue": request.message.feed.name,
            "published": records.microseconds(request.request_dict.get(PUBLISHED)),
        }
        written = self.log.keeps("admitted", fields)
        if written != self._is_written:
            self._is_written = written
            if written:
                logger.warning("The event log can be written again: non-repeatable tasks start")
            else:
                logger.error(
                    "The event log in %s cannot be written: until it can, non-repeatable tasks are"
                    " not started, and their messages not acknowledged. Give the disk room, or let"
                    " them start unrecorded: fair_event_log_required = False",
                    self.log.policy.folder,
                )
        return written

    def accepted(self, pid: int) -> None:
        """Write which child process works, once in its life: its own log may be missing."""
        if pid not in self._children:
            self._children.add(pid)
            fields = {"state": "child", "parent": self.log.parent, "child": pid}
            self.log.record("process", fields)

    def _live(self) -> None:
        self._life("heartbeat")
        if self._children:
            # The system may give the number of one that has ended to a child that is made later.
            self._children &= {child.pid for child in self._c.pool._pool._pool}

    def broken_off(self, request: Any, exc: BaseException) -> None:
        """A request's process was stopped in its midst, or has died."""
        note = request.request_dict[records.NOTE]
        runtime = int((monotonic() - request.message.begun_at) * 1e6)
        if isinstance(exc, TimeLimitExceeded):
            state, name = "FAILURE", "TimeLimitExceeded"
        elif isinstance(exc, Terminated) or request._already_revoked:
            state, name = "REVOKED", "Terminated"
        else:  # a process that ends by itself may say so, by whichever exception
            state, name = "FAILURE", "WorkerLostError"
        retries = request.request_dict.get("retries")
        attempt = records.about(request.task.name, str(request.id), retries, note)
        fields = records.finished(attempt, state, runtime, name)
        self.log.write("finished", f'{fields},"broken_off":true')

    def _life(self, state: str) -> None:
        controller = self._c.controller
        self.log.record(
            "process",
            {
                "state": state,
                "parent": self.log.parent,
                "concurrency": controller.concurrency,
                "pool": controller.pool_cls.__module__.rpartition(".")[2],
                "heartbeat": records.microseconds(_HEARTBEAT),
                "rotate": records.microseconds(self.log.policy.rotate),
                "quanta": self.queues.quanta(),
                "costs": records.costs_of(self._settings),
                "dropped": self.log.dropped,
                "version": _VERSION,
            },
        )

    def _sweep(self) -> None:
        Thread(target=sweep, args=(self.log.policy,), name="sweep", daemon=True).start()

    def _on_dead_letter(self, message: Any, headers: Any, **_: Any) -> None:
        known = getattr(message, "headers", None)
        if not isinstance(known, dict):
            known = {}
        name, id_ = known.get("task"), known.get("id")
        self.log.record(
            "rejected",
            {
                "id": id_ if isinstance(id_, str) else None,
                "retries": records.whole(known.get("retries")),
                "task": name if isinstance(name, str) else None,
                "queue": headers.get("x-fair-queue"),
                "key": records.key_of(known.get(FAIR_KEY)),
                "published": records.microseconds(known.get(PUBLISHED)),
                "reason": headers.get("x-fair-reason"),
                "may_have_started": bool(headers.get("x-fair-may-have-started")),
            },
        )

    def _on_worker_end(self, sender: Any = None, **_: Any) -> None:
        if sender is self._c.controller:
            self._life("exit")
            self.log.close()

    # The process that works -----------------------------------------------------

    def _on_process(self, **_: Any) -> None:
        if self.log.parent != self.log.boot:
            self._life("boot")
            self._beats = Thread(target=self._beat, name="heartbeat", daemon=True)
            self._beats.start()

    def _beat(self) -> None:
        """Tell what a child process knows of itself; its worker's queues may be others by now.

        From a thread of its own, as the process may be at work for hours.
        """
        while not self._ends.wait(_HEARTBEAT):
            self.log.record(
                "process",
                {
                    "state": "heartbeat",
                    "parent": self.log.parent,
                    "heartbeat": records.microseconds(_HEARTBEAT),
                    "dropped": self.log.dropped,
                },
            )

    def _on_process_end(self, **_: Any) -> None:
        if self.log.parent != self.log.boot:
            self._ends.set()
            if self._beats is not None:
                self._beats.join(_BEAT_TAKES)
            self._life("exit")
            self.log.close()

    def _on_start(self, task: Any, task_id: str, **_: Any) -> None:
        request = task.request
        note = vars(request).get(records.NOTE)
        if note is None:  # called, not delivered
            return
        published = records.microseconds(vars(request).get(PUBLISHED))
        repeatable = not isinstance(task, NonRepeatableTask)
        attempt = records.about(task.name, str(task_id), request.retries, note)
        key = records.key_of(vars(request).get(FAIR_KEY))
        self.log.write("started", records.started(attempt, note, published, repeatable, key))
        vars(request)[_BEGUN] = attempt, monotonic_ns()

    def _on_end(self, task: Any, state: Any, retval: Any, **_: Any) -> None:
        request = task.request
        note = vars(request).get(records.NOTE)
        if note is None:
            return
        failed = retval if isinstance(retval, BaseException) else None
        if state is None:  # the task did not end: its process, thread or greenlet is told to
            if self.log.parent != self.log.boot:
                return  # by the main process, which knows why
            state, failed = "FAILURE", sys.exception()
        attempt, since = vars(request)[_BEGUN]
        runtime = (monotonic_ns() - since) // 1000
        name = None if failed is None else type(failed).__name__
        fields = records.finished(attempt, str(state), runtime, name)
        self.log.write("finished", fields)


def recorder_for(c: Any, settings: Settings, feeds: OpenFeeds, chooser: Chooser) -> Recorder | None:
    """Return the recorder of a worker, if its app's settings ask for a log.

    Arguments:
        c: Celery's consumer.

    Raises:
        celery.exceptions.ImproperlyConfigured: this process may not write there.
    """
    if settings.event_log is None:
        return None
    policy = log_policy(settings)
    try_log(policy)
    log = EventLog(policy, c.hostname)
    depths = Depths(c.app.connection_for_read, settings.keys)
    classes = {} if settings.targets is None else settings.targets.classes
    queues = QueueStates(feeds, chooser, depths, log, classes)
    return Recorder(log, queues, QueueSettings(feeds, settings, log), settings, c)


def log_policy(settings: Settings) -> Policy:
    """Return where the log is to be, and how it is kept; the settings ask for one."""
    return Policy(
        Path(str(settings.event_log)),
        fsync=settings.event_log_fsync,
        rotate=settings.event_log_rotate,
        limit=settings.event_log_limit,
    )


def try_log(policy: Policy) -> None:
    """Write something there: later on a worker is not held up by its log, and only says so.

    Raises:
        celery.exceptions.ImproperlyConfigured: this process may not.
    """
    folder = host_folder(policy.folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as file:
            file.write(b"\n")
    except OSError as exc:
        raise ImproperlyConfigured(
            f"fair_event_log = {str(policy.folder)!r}: this worker cannot write there ({exc})."
            " Let its user write there, name another folder, or leave fair_event_log out"
        ) from exc
