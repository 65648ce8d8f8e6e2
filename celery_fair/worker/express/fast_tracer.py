"""Running a task the short way, when nobody listens to its start or its end.

Most of what Celery's tracer does around a task's code is for results, callbacks and receivers of
signals. For a request that has none of them only the code runs here, in the request's context, as
there. Whatever else becomes of it is Celery's: if the code raises, or has given its request a
callback, the outcome is handed to Celery's own tracer, in which it takes the code's place.

There is no seam for this in Celery: what the tracer calls, and whether a task has handlers of its
own, is read from the variables that the tracer closes over. Where one of them is missing, or the
tracer is not Celery's, everything takes Celery's way.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from time import monotonic
from types import CellType, FunctionType
from typing import Any

from celery.app.task import Context
from celery.app.trace import fast_trace_task
from celery.backends.base import Backend, DisabledBackend
from celery.loaders.base import BaseLoader
from celery.utils.threads import Local

__all__ = ["fast_tracer"]

_STACKS = ("push_task", "push_request")
_RECEIVERS = ("prerun_receivers", "postrun_receivers", "success_receivers")
_HANDLERS = ("task_before_start", "task_on_success", "task_after_return")
_OTHERS = ("deduplicate_successful_tasks", "_does_info")
_HOOKS = {"loader_task_init": "on_task_init", "loader_cleanup": "on_process_cleanup"}

_ARGS = (list, tuple)

_CELERYS = {*vars(Context), "lang", "task", "argsrepr", "kwargsrepr", "compression"}
"""What a request's own headers are not, as in Celery's ``Context``."""


def fast_tracer(task: Any, hostname: str) -> Callable[..., Any] | None:
    """Return what runs a task's requests, or None if all of them are to take Celery's way.

    It is called as Celery's ``fast_trace_task`` is, with a decoded body, and returns what that
    does, but for the result's text, which is only for events.
    """
    tracer = task.__trace__
    parts = _closed_over(tracer)
    if not _is_usual(task, parts):
        return None
    fun = parts["fun"]
    tasks, requests = (_local(parts[name]).__storage__ for name in _STACKS)
    get_ident = _local(parts["push_task"]).__ident_func__
    prerun, postrun, success = (parts[name] for name in _RECEIVERS)
    marks: dict[str, Any] = {"called_directly": False}
    protects = fun is task and _is_celerys_call(type(task).__call__)
    if protects:
        marks["_protected"] = 1  # as Celery's own ``__call__`` does in a worker, to call `run` then
    keeps_results = type(task.backend) is not DisabledBackend

    def run(
        name: str, uuid: str, request: dict[str, Any], body: Any, *how: Any, **opts: Any
    ) -> Any:
        args, kwargs, embed = body
        here = get_ident()
        if (
            prerun
            or postrun
            or success
            or task.__trace__ is not tracer
            or task.track_started
            or type(args) not in _ARGS
            or type(kwargs) is not dict
            or type(embed) is not dict
            or any(embed.values())
            or here in tasks  # inside of another one
            or (keeps_results and not request.get("ignore_result"))
        ):
            return fast_trace_task(name, uuid, request, body, *how, **opts)
        start = monotonic()
        request.update(args=args, kwargs=kwargs, hostname=hostname, is_eager=False)
        request.update(embed)
        context = Context.__new__(Context)
        context.update(request, **marks)
        if context.headers is None:
            own = request.keys() - _CELERYS
            context.update(headers={key: request[key] for key in request if key in own} or None)
        tasks[here], requests[here] = {"stack": [task]}, {"stack": [context]}
        try:
            result = (task.run if protects else fun)(*args, **kwargs)
        except BaseException as exc:  # noqa: BLE001 - Celery's tracer sees to it
            outcome = _raising(exc)
        else:
            if not (postrun or success or context.callbacks or context.chain or context.chord):
                return 0, "", monotonic() - start
            outcome = _returning(result)
        finally:
            tasks.pop(here, None)
            requests.pop(here, None)
        finish = _finishing(tracer, outcome, context, start)
        value, info, runtime, text = finish(uuid, args, kwargs, request)
        return (1, value, runtime) if info else (0, text, runtime)

    return run


def _closed_over(tracer: Any) -> dict[str, Any]:
    if type(tracer) is not FunctionType or tracer.__module__ != "celery.app.trace":
        return {}
    names, cells = tracer.__code__.co_freevars, tracer.__closure__ or ()
    try:
        return {name: cell.cell_contents for name, cell in zip(names, cells, strict=True)}
    except ValueError:  # one is empty
        return {}


def _is_usual(task: Any, parts: Mapping[str, Any]) -> bool:
    needed = {"fun", *_STACKS, *_RECEIVERS, *_HANDLERS, *_OTHERS, *_HOOKS}
    return bool(
        needed <= parts.keys()
        and all(type(_local(parts[name])) is Local for name in _STACKS)
        and not any(parts[name] for name in (*_HANDLERS, *_OTHERS))
        and all(
            getattr(parts[name], "__func__", None) is getattr(BaseLoader, hook)
            for name, hook in _HOOKS.items()
        )
        and all(
            getattr(type(task.backend), hook) is getattr(Backend, hook)
            for hook in ("mark_as_done", "process_cleanup")
        )
    )


def _is_celerys_call(call: Any) -> bool:
    """Whether a method is what Celery's workers make of ``Task.__call__``; no one's wrapper."""
    code = getattr(call, "__code__", None)
    return getattr(code, "co_name", "") == "__protected_call__"


def _local(push: Any) -> Any:
    """Return what holds a stack of Celery's, by thread, from its method."""
    return getattr(getattr(push, "__self__", None), "_local", None)


def _raising(exc: BaseException) -> Callable[..., Any]:
    exc = exc.with_traceback(exc.__traceback__ and exc.__traceback__.tb_next)  # without `run`

    def outcome(*_: Any, **__: Any) -> Any:
        raise exc

    return outcome


def _returning(result: Any) -> Callable[..., Any]:
    def outcome(*_: Any, **__: Any) -> Any:
        return result

    return outcome


def _finishing(
    tracer: Any, outcome: Callable[..., Any], context: Context, start: float
) -> Callable[..., Any]:
    """Return Celery's tracer of a task that has run already, in a context, and had an outcome."""
    times = chain([start], iter(monotonic, None))
    parts = {"fun": outcome, "prerun_receivers": (), "monotonic": partial(next, times)}
    code = tracer.__code__
    cells = (
        CellType(parts[name]) if name in parts else cell
        for name, cell in zip(code.co_freevars, tracer.__closure__, strict=True)
    )
    names = tracer.__globals__ | {"Context": lambda *_, **__: context}
    return FunctionType(code, names, tracer.__name__, tracer.__defaults__, tuple(cells))
