"""Running a task as Celery's tracer does, without what is there for nobody.

Celery's tracer is one function for each task, made when the worker starts; much of what it does
around a task's code is for results, callbacks, handlers and receivers of signals. Here they are
looked for, and served as there if there are any: signals and log lines, results by the app's own
backend, and whatever a task raises by Celery's own ``TraceInfo``. Signals, log lines and results
come in Celery's order.

Celery's own tracer runs what is unusual: a request with callbacks or a chain, a task with handlers
of its own (``before_start``, ``on_success``, ``after_return``), one whose successes are looked up
first (``worker_deduplicate_successful_tasks``); and every task whose tracer somebody has replaced
or wrapped, as Sentry does.
"""

import logging
import os
from collections.abc import Callable
from time import monotonic
from types import FunctionType
from typing import Any, NamedTuple

from billiard.einfo import ExceptionInfo
from celery import canvas, signals, states
from celery._state import _task_stack  # type: ignore[attr-defined]
from celery.app import task as tasks
from celery.app import trace
from celery.app.trace import TraceInfo
from celery.backends.base import DisabledBackend
from celery.exceptions import Ignore, Reject, Retry
from celery.utils.saferepr import saferepr
from kombu.exceptions import EncodeError
from kombu.serialization import loads
from kombu.utils.encoding import safe_repr

_ARGS = (list, tuple)

_CELERYS = {*vars(tasks.Context), "lang", "task", "argsrepr", "kwargsrepr", "compression"}
"""What a request's own headers are not, as in Celery's ``Context``."""

_tells_runtime = "runtime" in signals.task_success.providing_args  # type: ignore[attr-defined]

_prerun, _postrun = signals.task_prerun, signals.task_postrun
_success = signals.task_success


Answer = tuple[int, Any, float | None]
"""To the pool: 1, the error and None, or 0, the text of the result, and the run time in seconds."""


class _End(NamedTuple):
    """Of a task's run."""

    state: str | None
    value: Any  # what was returned, or raised
    answer: Answer


_BROKEN_OFF = _End(None, None, (1, None, None))


def run(
    name: str,
    uuid: str,
    request: dict[str, Any],
    body: Any,
    content_type: str | None,
    content_encoding: str | None,
    **options: Any,
) -> Answer:
    """Run a task; called, in whatever process, in the place of Celery's ``fast_trace_task``.

    Arguments:
        body: positional and keyword arguments and what is embedded; decoded, if there is no
            content type.
    """
    registry, accept, hostname = trace._localized  # type: ignore[attr-defined]
    if content_type:
        body = loads(body, content_type, content_encoding or "utf-8", accept=accept)
    tracer = _tracer_of(registry[name], hostname)
    if tracer is None or not _is_usual(body):
        return trace.fast_trace_task(name, uuid, request, body, None, None, **options)
    args, kwargs, embed = body
    request.update(args=args, kwargs=kwargs, hostname=hostname, is_eager=False)
    request.update(embed)
    return tracer(uuid, args, kwargs, request)


def _is_usual(body: Any) -> bool:
    if type(body) not in _ARGS or len(body) != 3:
        return False
    args, kwargs, embed = body
    return (
        type(args) in _ARGS
        and type(kwargs) is dict
        and type(embed) is dict
        and not embed.get("callbacks")
        and not embed.get("chain")
    )


_tracers: dict[str, tuple[Any, "_Tracer | None"]] = {}
"""By a task's name: Celery's tracer, and ours in its place."""


def _tracer_of(task: Any, hostname: str) -> "_Tracer | None":
    celerys = task.__trace__
    known, tracer = _tracers.get(task.name, (None, None))
    if known is not celerys or known is None:
        tracer = _Tracer(task, hostname) if _can_be_traced(task) else None
        _tracers[task.name] = celerys, tracer
    return tracer


def _can_be_traced(task: Any) -> bool:
    """Whether nobody has replaced Celery's tracer, and the task has no handlers of its own."""
    conf, celerys = task.app.conf, task.__trace__
    deduplicates = conf.worker_deduplicate_successful_tasks and (
        conf.task_acks_late or task.acks_late
    )
    return not (
        _file_of(celerys) != _FILE  # who has wrapped it, as Sentry does, has given it its name
        or not _is_for(celerys, task)
        or (deduplicates and task.app.backend.persistent)
        or any(map(_has_own(task), ("before_start", "on_success", "after_return")))
    )


def _is_for(celerys: Any, task: Any) -> bool:
    """Whether Celery's tracer was made for the task itself: New Relic hands it a wrapper of it."""
    names = celerys.__code__.co_freevars
    cell = dict(zip(names, celerys.__closure__ or (), strict=True)).get("task")
    return cell is not None and cell.cell_contents is task


def _has_own(task: Any) -> Callable[[str], bool]:
    return lambda handler: bool(trace.task_has_custom(task, handler))


def _file_of(function: Any) -> str | None:
    """Of a function itself: wrapt's wrappers have the code of what they wrap."""
    return function.__code__.co_filename if type(function) is FunctionType else None


_FILE = _file_of(trace.task_has_custom)


class _Tracer:
    """Runs a task's requests."""

    def __init__(self, task: Any, hostname: str) -> None:
        self._task = task
        self._hostname = hostname
        self._loader = task.app.loader
        self._keeps = type(task.backend) is not DisabledBackend  # a new one for each greenlet
        self._priority_is_inherited = task.app.conf.task_inherit_parent_priority
        self._marks: dict[str, Any] = {"called_directly": False}
        self._call = task if trace.task_has_custom(task, "__call__") else task.run
        if self._call is task and _is_celerys_call(type(task).__call__):
            self._marks["_protected"] = 1  # as that does in a worker, to call `run` then
            self._call = None

    def __call__(self, uuid: str, args: Any, kwargs: Any, request: dict[str, Any]) -> Answer:
        task, start, end = self._task, monotonic(), _BROKEN_OFF
        context = self._context(request)
        ignored = _ignores_result(task, context)
        try:
            _task_stack.push(task)
            task.request_stack.push(context)
            try:
                if _prerun.receivers:
                    _prerun.send(sender=task, task_id=uuid, task=task, args=args, kwargs=kwargs)
                self._loader.on_task_init(uuid, task)
                if task.track_started and not ignored and self._keeps:
                    me = {"pid": os.getpid(), "hostname": self._hostname}
                    task.backend.store_result(uuid, me, states.STARTED, request=context)
                try:
                    result = (self._call or task.run)(*args, **kwargs)
                except Exception as exc:  # noqa: BLE001 - Celery's `TraceInfo` sees to it
                    end = _failed(task, context, exc)
                else:
                    end = _End(states.SUCCESS, result, _BROKEN_OFF.answer)
                    end = self._succeeded(uuid, args, kwargs, result, context, ignored, start)
            finally:
                self._leave(uuid, args, kwargs, end)
        except (MemoryError, Reject):
            raise
        except Exception as exc:  # noqa: BLE001 - as Celery's tracer: outside of the task's code
            trace._signal_internal_error(  # type: ignore[attr-defined]
                task, uuid, args, kwargs, request, exc
            )
            outcome = trace.report_internal_error(task, exc)
            _failed(task, context, exc)
            return 1, outcome, end.answer[2]
        return end.answer

    def _succeeded(
        self,
        uuid: str,
        args: Any,
        kwargs: Any,
        result: Any,
        context: Any,
        ignored: bool,
        start: float,
    ) -> "_End":
        """Keep what a task has returned, and tell whoever is to know of it."""
        task = self._task
        try:
            if context.callbacks or context.chain:
                self._publish_next(result, context, uuid)
            if self._keeps:
                task.backend.mark_as_done(uuid, result, context, not ignored)
        except EncodeError as exc:
            return _failed(task, context, exc)
        text = saferepr(result, task.resultrepr_maxsize)
        seconds = monotonic() - start
        if _success.receivers:
            told = {"runtime": seconds} if _tells_runtime else {}
            _success.send(sender=task, result=result, **told)
        if trace.logger.isEnabledFor(logging.INFO):
            said = {
                "id": uuid,
                "name": trace.get_task_name(context, task.name),
                "return_value": text,
                "runtime": seconds,
                "args": context.get("argsrepr") or safe_repr(args),
                "kwargs": context.get("kwargsrepr") or safe_repr(kwargs),
            }
            trace.info(trace.LOG_SUCCESS, said)
        return _End(states.SUCCESS, result, (0, text, seconds))

    def _leave(self, uuid: str, args: Any, kwargs: Any, end: "_End") -> None:
        task = self._task
        try:
            if _postrun.receivers:
                told = {"task_id": uuid, "task": task, "args": args, "kwargs": kwargs}
                _postrun.send(sender=task, **told, retval=end.value, state=end.state)
        finally:
            _task_stack.pop()
            task.request_stack.pop()
            try:
                if self._keeps:
                    task.backend.process_cleanup()
                self._loader.on_process_cleanup()
            except MemoryError:
                raise
            except Exception as exc:  # noqa: BLE001 - as Celery: the task has ended all the same
                trace.logger.error("Process cleanup failed: %r", exc, exc_info=True)

    def _context(self, request: dict[str, Any]) -> Any:
        """As Celery's, which makes a set of its own attributes for each."""
        context = tasks.Context.__new__(tasks.Context)
        context.update(request, **self._marks)
        if context.headers is None:
            own = request.keys() - _CELERYS
            context.update(headers={key: request[key] for key in request if key in own} or None)
        return context

    def _publish_next(self, result: Any, context: Any, uuid: str) -> None:
        """Publish what a task has given its own request while it ran."""
        app = self._task.app
        family: dict[str, Any] = {"parent_id": uuid, "root_id": context.root_id or uuid}
        if self._priority_is_inherited:
            family["priority"] = context.delivery_info.get("priority")
        for call in context.callbacks or ():
            canvas.signature(call, app=app).apply_async((result,), **family)
        if context.chain:
            *rest, following = context.chain
            canvas.signature(following, app=app).apply_async((result,), chain=rest, **family)


def _ignores_result(task: Any, context: Any) -> bool:
    """Whether a result is kept for nobody; before Celery 5.6.3 the task alone says so."""
    actual = getattr(trace, "get_actual_ignore_result", None)
    return bool(actual(task, context) if actual else task.ignore_result)


def _failed(task: Any, context: Any, exc: Exception) -> "_End":
    """Have Celery see to what a task has raised, and which is being handled."""
    outcome: Any
    if isinstance(exc, Reject | Ignore):
        state = states.REJECTED if isinstance(exc, Reject) else states.IGNORED
        info, outcome = TraceInfo(state, exc), ExceptionInfo(internal=True)
        handle = info.handle_reject if isinstance(exc, Reject) else info.handle_ignore
        handle(task, context)
    else:
        retries = isinstance(exc, Retry)
        info = TraceInfo(states.RETRY if retries else states.FAILURE, exc)
        outcome = info.handle_error_state(task, context, call_errbacks=not retries)
    trace.traceback_clear(exc)
    return _End(info.state, info.retval, (1, outcome, None))


def _is_celerys_call(call: Any) -> bool:
    """Whether a method is what Celery's workers make of ``Task.__call__``; no one's wrapper."""
    return type(call) is FunctionType and call.__code__.co_name == "__protected_call__"
