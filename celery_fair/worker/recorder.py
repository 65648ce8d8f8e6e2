"""What the worker writes into the event log, and when.

Starts and ends are written by the process that does the work, around it: under prefork that is a
child, whose intent survives it. What the child cannot know of the message travels with the request,
as `NOTE`. All else is the main process's: dead letters, the state of the queues, and the signs of
life.
"""

from functools import cache, partial
from importlib.metadata import version
from json.encoder import encode_basestring_ascii
from pathlib import Path
from threading import Thread
from time import monotonic, time
from typing import Any

from celery.signals import (
    task_postrun,
    task_prerun,
    worker_process_init,
    worker_process_shutdown,
    worker_shutdown,
)

from celery_fair.eventlog import EventLog, Policy, quoted, sweep
from celery_fair.headers import PUBLISHED
from celery_fair.tasks import NonRepeatableTask
from celery_fair.worker.dead_letters import described, is_redelivered, message_dead_lettered
from celery_fair.worker.queue_states import QueueStates

__all__ = ["NOTE", "Recorder", "finished", "recorder_for", "started"]

NOTE = "fair"
"""The attribute of a running task's request."""

Note = tuple[str, float, bool, str | None, float]
"""Queue, arrival, redelivered, cost key, cost."""

_SAMPLE = 1.0
_HEARTBEAT = 10.0
_SWEEP = 10.0


class Recorder:
    """Of one worker, in all of its processes.

    Arguments:
        worker: a `FairWorker`.
    """

    def __init__(self, policy: Policy, worker: Any) -> None:
        self._worker = worker
        self.log = EventLog(policy, worker.c.hostname)
        self._timers: list[Any] = []
        self.queues = QueueStates(worker, self.log)
        for signal, receiver in (
            (task_prerun, self._on_start),
            (task_postrun, self._on_end),
            (message_dead_lettered, self._on_dead_letter),
            (worker_process_init, self._on_process),
            (worker_process_shutdown, self._on_process_end),
            (worker_shutdown, self._on_worker_end),
        ):
            signal.connect(receiver)
        self._life("boot")
        self._sweep()

    # The main process ---------------------------------------------------------

    def start(self) -> None:
        """Give signs of life, on a new connection."""
        timer, soon = self._worker.c.timer, self._worker.c.call_soon
        self._timers = [
            timer.call_repeatedly(_SAMPLE, soon, (self.queues.look,)),
            timer.call_repeatedly(_HEARTBEAT, soon, (partial(self._life, "heartbeat"),)),
            timer.call_repeatedly(_SWEEP, self._sweep),
        ]
        self._life("heartbeat")
        self.queues.start()

    def stop(self) -> None:
        """Give no more until the next start."""
        for timer in self._timers:
            timer.cancel()
        self._timers = []
        self.queues.stop()

    def note(self, request: Any) -> None:
        """A request is about to be handed to the pool."""
        message = request.message
        request.request_dict[NOTE] = (
            message.feed.name,
            time() - (monotonic() - message.arrived),
            is_redelivered(message),
            message.cost_key,
            message.cost,
        )

    def _life(self, state: str) -> None:
        worker = self._worker
        self.log.record(
            "process",
            {
                "state": state,
                "parent": self.log.parent,
                "concurrency": worker.c.controller.concurrency,
                "pool": worker.c.controller.pool_cls.__module__.rpartition(".")[2],
                "heartbeat": _HEARTBEAT,
                "quanta": self.queues.quanta,
                "dropped": self.log.dropped,
                "version": _version(),
            },
        )

    def _sweep(self) -> None:
        Thread(target=sweep, args=(self.log.policy,), name="sweep", daemon=True).start()

    def _on_dead_letter(self, message: Any, reason: str, headers: Any, **_: Any) -> None:
        name, id_ = described(message)
        known = message.headers if isinstance(message.headers, dict) else {}
        self.log.record(
            "rejected",
            {
                "id": id_ if isinstance(id_, str) else None,
                "retries": _whole(known.get("retries")),
                "task": name if isinstance(name, str) else None,
                "queue": headers.get("x-fair-queue"),
                "published": _number(known.get(PUBLISHED)),
                "reason": reason,
                "may_have_started": bool(headers.get("x-fair-may-have-started")),
            },
        )

    def _on_worker_end(self, sender: Any = None, **_: Any) -> None:
        if sender is self._worker.c.controller:
            self._life("exit")
            self.log.close()

    # The process that works -----------------------------------------------------

    def _on_process(self, **_: Any) -> None:
        if self.log.parent != self.log.boot:
            self._life("boot")

    def _on_process_end(self, **_: Any) -> None:
        if self.log.parent != self.log.boot:
            self._life("exit")
            self.log.close()

    def _on_start(self, task: Any, task_id: str, **_: Any) -> None:
        request = task.request
        note = vars(request).get(NOTE)
        if note is None:  # called, not delivered
            return
        published = _number(vars(request).get(PUBLISHED))
        repeatable = not isinstance(task, NonRepeatableTask)
        retries = _whole(request.retries) or 0
        fields = started(task.name, str(task_id), retries, note, published, repeatable)
        self.log.write("started", fields)
        request.fair_since = monotonic()

    def _on_end(self, task: Any, task_id: str, state: str, retval: Any, **_: Any) -> None:
        request = task.request
        note = vars(request).get(NOTE)
        if note is None:
            return
        runtime = monotonic() - request.fair_since
        failed = type(retval).__name__ if isinstance(retval, BaseException) else None
        retries = _whole(request.retries) or 0
        fields = finished(task.name, str(task_id), retries, note, state, runtime, failed)
        self.log.write("finished", fields)


def recorder_for(worker: Any) -> Recorder | None:
    """Return the recorder of a `FairWorker`, if its app's settings ask for a log."""
    settings = worker.settings
    if settings.event_log is None:
        return None
    policy = Policy(
        Path(settings.event_log),
        fsync=settings.event_log_fsync,
        rotate=settings.event_log_rotate,
        limit=settings.event_log_limit,
    )
    return Recorder(policy, worker)


def started(
    task: str, id_: str, retries: int, note: Note, published: float | None, repeatable: bool
) -> str:
    """Return a record's fields."""
    queue, received, redelivered, cost_key, cost = note
    return (
        f'"id":{encode_basestring_ascii(id_)},"retries":{retries},"task":{quoted(task)},'
        f'"queue":{quoted(queue)},"published":{"null" if published is None else repr(published)},'
        f'"received":{received:.6f},"redelivered":{_flag(redelivered)},'
        f'"repeatable":{_flag(repeatable)},"cost_key":{_text(cost_key)},"cost":{cost!r}'
    )


def finished(
    task: str,
    id_: str,
    retries: int,
    note: Note,
    state: str,
    runtime: float,
    exception: str | None,
) -> str:
    """Return a record's fields."""
    return (
        f'"id":{encode_basestring_ascii(id_)},"retries":{retries},"task":{quoted(task)},'
        f'"queue":{quoted(note[0])},"state":{quoted(str(state))},"runtime":{runtime:.6f},'
        f'"cost_key":{_text(note[3])},"exception":{_text(exception)}'
    )


def _text(text: str | None) -> str:
    return "null" if text is None else quoted(text)


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _number(value: Any) -> float | None:
    """Return a header's number: anybody may have written it."""
    return float(value) if isinstance(value, int | float) and abs(value) < 1e12 else None


def _whole(value: Any) -> int | None:
    """Return a header's number if it is whole, and one that a reader's 64 bits can hold."""
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63
    return int(value) if whole else None


@cache
def _version() -> str:
    return version("celery-fair")
