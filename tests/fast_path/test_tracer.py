"""What becomes of a task is the same, whichever way it is run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any

import pytest
import wrapt
from celery import Celery, current_task, signals
from celery.app import trace
from celery.app.task import Task as BaseTask
from celery.app.trace import build_tracer, fast_trace_task
from celery.backends.base import DisabledBackend
from celery.exceptions import Ignore, Reject, WorkerShutdown
from celery.loaders.app import AppLoader
from celery.result import AsyncResult

from celery_fair.worker.fast_path import tracer

HOST = "worker@here"
NOTHING = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
Way = Callable[..., Any]

seen: list[Any] = []
"""What tasks and receivers of signals have noted."""


@pytest.fixture(autouse=True)
def nothing_seen() -> Iterator[None]:
    seen.clear()
    yield
    seen.clear()


@pytest.fixture
def app() -> Iterator[Celery]:
    with Celery("traced", broker="memory://", set_as_current=False) as app:
        app.conf.task_default_queue = "traced"
        yield app
        waiting(app)  # what is left would be the next app's


left: list[str] = []
"""The tasks that ours has left to Celery's tracer."""


@pytest.fixture(autouse=True)
def looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def fast_trace(name: str, *args: Any, **options: Any) -> Any:
        left.append(name)
        return fast_trace_task(name, *args, **options)

    monkeypatch.setattr(trace, "fast_trace_task", fast_trace)
    monkeypatch.setattr(trace, "_localized", [])


def ways(app: Celery, task: Any) -> tuple[Way, Way]:
    """Celery's way and ours to run a task."""
    task = app.tasks[task.name]
    task.__trace__ = build_tracer(task.name, task, app.loader, HOST, app=app)
    trace._localized[:] = [app.tasks, {"application/json"}, HOST]

    def celerys(*args: Any) -> Any:
        return fast_trace_task(task.name, *args, None, None)

    return celerys, lambda *args: tracer.run(task.name, *args, None, None)


def request(**more: Any) -> dict[str, Any]:
    return {
        "id": "id-1",
        "task": "t",
        "lang": "py",
        "root_id": "id-1",
        "retries": 0,
        "timelimit": [30, 20],
        "ignore_result": False,
        "argsrepr": "()",
        "delivery_info": {"redelivered": False, "priority": 0},
        **more,
    }


def outcome(way: Way, body: Any, **more: Any) -> dict[str, Any]:
    """What a way makes of a message, and what was noted meanwhile."""
    seen.clear()
    message = request(**more)
    try:
        failed, value, _ = way("id-1", message, body)
    except BaseException as exc:  # noqa: BLE001 - compared
        failed, value = "raised", exc
    assert not current_task
    told = repr(getattr(value, "exception", value)), type(getattr(value, "exception", value))
    return {"failed": failed, "value": told, "seen": list(seen), "message": message}


def same(app: Celery, task: Any, body: Any = ((), {}, NOTHING), **more: Any) -> dict[str, Any]:
    """Run a task both ways; the second time ours."""
    celerys, ours = ways(app, task)
    expected, found = outcome(celerys, body, **more), outcome(ours, body, **more)
    assert found == expected
    return found


def is_short(app: Celery, task: Any, embed: Any = NOTHING, **more: Any) -> bool:
    """Whether a task was run our way."""
    _, ours = ways(app, task)
    left.clear()
    failed, _, _ = ours("id-1", request(**more), ([], {}, embed))
    assert failed == 0
    return not left


def note(task: Any, *args: Any, **kwargs: Any) -> str:
    seen.append((args, kwargs, vars(task.request).copy(), current_task.name, task.request.headers))
    return "done"


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"mine": 1, "other": "ä", "headers": None},
        {"headers": {"a": 1}, "mine": 2},
        {"timelimit": None},
        {"properties": {"x": 1}, "reply_to": "r", "stamps": {}, "stamped_headers": None},
    ],
)
def test_the_context(app: Celery, more: dict[str, Any]) -> None:
    task = app.task(bind=True, name="t", shared=False)(note)
    same(app, task, ([1, "ä"], {"x": [2]}, NOTHING), **more)
    assert is_short(app, task, **more)


class OwnError(Exception):
    pass


def fail() -> None:
    try:
        {}["cause"]
    except KeyError as cause:
        raise OwnError("effect", 1) from cause


def unserialisable() -> object:
    return object()


def ignore() -> None:
    raise Ignore


def reject() -> None:
    raise Reject("no", requeue=False)


def run_out() -> None:
    raise MemoryError


def shut_down() -> None:
    raise WorkerShutdown(1)


def leave() -> None:
    raise SystemExit(3)


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "code", [fail, ignore, reject, run_out, shut_down, leave, interrupt], ids=lambda c: c.__name__
)
def test_whatever_is_raised(
    app: Celery, code: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """It is told and logged alike, with a frame of ours in the place of Celery's."""

    def failed(sender: Any, einfo: Any, traceback: Any, **told: Any) -> None:
        del traceback
        frames = with_celerys(str(einfo.traceback).splitlines())
        seen.append((sender.name, frames, {name: repr(value) for name, value in told.items()}))

    task = app.task(name="t", shared=False)(code)
    signals.task_failure.connect(failed)
    try:
        with caplog.at_level(logging.WARNING):
            celerys, ours = ways(app, task)
            found = outcome(celerys, ((), {}, NOTHING)), logged(caplog)
            assert (outcome(ours, ((), {}, NOTHING)), logged(caplog)) == found
    finally:
        signals.task_failure.disconnect(failed)


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record.getMessage().splitlines()[0] for record in caplog.records]
    caplog.clear()
    return lines


def with_celerys(lines: list[str]) -> list[str]:
    """The lines of a traceback, with Celery's frame in the place of ours."""
    ours = {i for i, line in enumerate(lines) if tracer.__file__ in line}
    celerys = {i for i, line in enumerate(lines) if trace.__file__ in line}
    assert len(ours | celerys) <= 1
    return [
        "the tracer" if i in ours | celerys else line
        for i, line in enumerate(lines)
        if i - 1 not in ours | celerys and line.strip(" ^~")
    ]


def test_wrong_arguments(app: Celery) -> None:
    def takes_one(one: int) -> None: ...

    task = app.task(name="t", shared=False)(takes_one)
    for args in ([], [1, 2], 5):
        assert same(app, task, [args, {}, NOTHING])["failed"] == 1
    with pytest.warns(RuntimeWarning, match="raised outside body"):
        same(app, task, [[], [], NOTHING])


def test_a_body_that_is_none(app: Celery) -> None:
    task = app.task(bind=True, name="t", shared=False)(note)
    for body in ([[], {}], 5, None, [[], {}, 5]):
        assert same(app, task, body)["failed"] == "raised"
    same(app, task, [[], {}, None])


def test_a_retry(app: Celery) -> None:
    def again(self: Any) -> None:
        self.retry(countdown=0)

    task = app.task(bind=True, name="t", shared=False)(again)
    same(app, task)
    assert waiting(app) == 2


def test_what_a_task_leaves_in_its_request(app: Celery) -> None:
    """It is there when its failure is handled; and a callback given meanwhile is called."""

    class Noting(app.Task):  # type: ignore[name-defined,misc]
        def on_failure(self, *_: Any) -> None:
            seen.append((vars(self.request).copy(), len(self.request.children)))

    def mark(self: Any) -> None:
        self.request.mark = 7
        self.request.args = [9]
        self.request.children.append("child")
        raise OwnError

    def called(self: Any) -> str:
        self.request.callbacks = [self.app.signature("u", queue="traced")]
        return "value"

    same(app, app.task(bind=True, base=Noting, name="t", shared=False)(mark))
    ((left, children),) = seen
    assert (left["mark"], left["args"], left["headers"], children) == (7, [9], None, 1)
    same(app, app.task(bind=True, name="v", shared=False)(called))
    assert waiting(app) == 2


def waiting(app: Celery) -> int:
    """How many messages were published."""
    with app.connection_for_read() as connection:
        channel = connection.default_channel
        count = 0
        while channel.basic_get("traced", no_ack=True) is not None:
            count += 1
        return count


def test_a_task_that_calls_another(app: Celery) -> None:
    inner = app.task(bind=True, name="inner", shared=False)(note)

    def outer(self: Any) -> None:
        for call in (inner, inner.apply):
            call()
            seen.append((current_task.name, self.request.id))

    def no_id(items: list[Any]) -> list[Any]:
        return [item if len(item) == 2 else (item[0], item[1], item[3]) for item in items]

    task = app.task(bind=True, name="t", shared=False)(outer)
    celerys, ours = ways(app, task)
    noted = [no_id(outcome(way, ((), {}, NOTHING))["seen"]) for way in (celerys, ours)]
    assert noted[0] == noted[1]
    assert len(noted[0]) == 4


SIGNALS = {"prerun": signals.task_prerun, "postrun": signals.task_postrun}
SIGNALS["success"] = signals.task_success


@pytest.mark.parametrize("code", [note, fail, ignore, reject, leave], ids=lambda c: c.__name__)
def test_whoever_listens_is_told(app: Celery, code: Callable[..., Any]) -> None:
    """With the same words, in the same order, about every outcome."""

    def told(signal: Any, sender: Any, **what: Any) -> None:
        has_time = what.pop("runtime", 1) > 0
        said = {key: repr(value) for key, value in what.items()}
        seen.append((signal.name, sender.name, current_task.request.id, has_time, said))

    task = app.task(bind=code is note, name="t", shared=False)(code)
    for signal in SIGNALS.values():
        signal.connect(told)
    try:
        assert len(same(app, task)["seen"]) == (4 if code is note else 2)
        left.clear()
        same(app, task)
        assert not left
    finally:
        for signal in SIGNALS.values():
            signal.disconnect(told)


@pytest.mark.newest  # others do not see who listens after somebody has left
def test_who_listens_since_the_task_has_started(app: Celery) -> None:
    def told(signal: Any, state: str = "", runtime: float = 1, **_: Any) -> None:
        seen.append((signal.name, state, runtime > 0))

    def listen() -> None:
        for signal in SIGNALS.values():
            signal.connect(told)

    task = app.task(name="t", shared=False)(listen)
    found = []
    for way in ways(app, task):
        try:
            found.append(outcome(way, ((), {}, NOTHING)))
        finally:
            for signal in SIGNALS.values():
                signal.disconnect(told)
    assert found[0] == found[1]
    assert len(found[0]["seen"]) == 2


@pytest.mark.parametrize("more", [{}, {"shadow": "other", "argsrepr": "(secret)"}])
def test_the_line_of_a_success(
    app: Celery, more: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """With the same logger, words, data and place."""

    def said() -> list[Any]:
        (record,) = caplog.records
        caplog.clear()
        data: Any = vars(record)["data"]
        assert data.pop("runtime") > 0
        return [record.name, record.levelname, record.msg, data, record.funcName, record.lineno]

    task = app.task(bind=True, name="t", shared=False)(note)
    lines = []
    with caplog.at_level(logging.INFO, "celery.app.trace"):
        for way in ways(app, task):
            left.clear()
            outcome(way, ([1, {"a": "x" * 3000}], {"b": None}, NOTHING), **more)
            lines.append(said())
    assert lines[0] == lines[1]
    assert not left


def test_what_is_put_around_celerys_call(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a worker ``__call__`` is one of Celery's; who wraps it sees each call."""
    plain = app.Task.__call__

    def __protected_call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        self.request._protected = 1
        return self.run(*args, **kwargs)

    @wraps(__protected_call__)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append("wrapped")
        return __protected_call__(self, *args, **kwargs)

    task = app.task(bind=True, name="t", shared=False)(note)
    for call in (__protected_call__, wrapper):
        call.__module__ = "celery.app.trace"
        monkeypatch.setattr(BaseTask, "__call__", call)
        found = same(app, task)
        assert ("wrapped" in found["seen"]) == (call is wrapper)
        assert is_short(app, task)
    monkeypatch.setattr(BaseTask, "__call__", plain)


def test_what_is_changed_while_tasks_are_run(app: Celery) -> None:
    app.task(bind=True, name="t", shared=False)(note)
    task = app.tasks["t"]
    _, ours = ways(app, task)

    def own(*_: Any) -> Any:
        return "own", None, 0, "own"

    assert ours("id-1", request(), ([], {}, NOTHING))[1] == "'done'"
    task.__trace__ = own
    assert ours("id-1", request(), ([], {}, NOTHING))[1] == "own"
    celerys = build_tracer(task.name, task, app.loader, HOST, app=app)
    task.__trace__ = wraps(celerys)(partial(own))
    assert ours("id-1", request(), ([], {}, NOTHING))[1] == "own"


def test_a_tracer_that_the_same_file_wraps_and_builds_is_its_own(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Sentry does."""

    def build(name: str, task: Any, *args: Any, **options: Any) -> Any:
        celerys = build_tracer(name, task, *args, **options)

        @wraps(celerys)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            seen.append("wrapped" if task.name == name else "of another task")
            return celerys(*args, **kwargs)

        return wrapper

    task = app.task(bind=True, name="t", shared=False)(note)
    _, ours = ways(app, task)
    monkeypatch.setattr(trace, "build_tracer", build)
    app.tasks["t"].__trace__ = build("t", app.tasks["t"], app.loader, HOST, app=app)
    assert ours("id-1", request(), ([], {}, NOTHING))[1] == "'done'"
    assert "wrapped" in seen


@wrapt.decorator
def noting(wrapped: Any, _instance: Any, args: Any, kwargs: Any) -> Any:
    seen.append("wrapped")
    return wrapped(*args, **kwargs)


class Proxy(wrapt.ObjectProxy):  # type: ignore[misc]
    def run(self, *args: Any, **kwargs: Any) -> Any:
        return noting(self.__wrapped__.run)(*args, **kwargs)

    __call__ = run


def test_what_wrapt_has_put_around_a_tracer(app: Celery) -> None:
    """It has the code of what it wraps."""
    task = app.task(bind=True, name="t", shared=False)(note)
    _, ours = ways(app, task)
    app.tasks["t"].__trace__ = noting(app.tasks["t"].__trace__)
    assert outcome(ours, ((), {}, NOTHING))["seen"].count("wrapped") == 1


def test_what_wrapt_has_put_around_celerys_call(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    def __protected_call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        self.request._protected = 1
        return self.run(*args, **kwargs)

    __protected_call__.__module__ = "celery.app.trace"
    monkeypatch.setattr(BaseTask, "__call__", noting(__protected_call__))
    task = app.task(bind=True, name="t", shared=False)(note)
    assert same(app, task)["seen"].count("wrapped") == 1


def test_a_tracer_that_was_made_for_a_wrapper_of_the_task(app: Celery) -> None:
    """As New Relic does."""
    task = app.task(bind=True, name="t", shared=False)(note)
    _, ours = ways(app, task)
    task = app.tasks["t"]
    task.__trace__ = build_tracer("t", Proxy(task), app.loader, HOST, app=app)
    assert outcome(ours, ((), {}, NOTHING))["seen"].count("wrapped") == 1


def test_the_end_that_is_told_of_where_a_result_cannot_be_kept(app: Celery) -> None:
    def told(state: str, retval: Any, **_: Any) -> None:
        seen.append((state, retval))

    def mark(*_: Any) -> None:
        raise KeyboardInterrupt

    backend = type("Own", (DisabledBackend,), {"mark_as_done": mark})(app=app)
    task = app.task(bind=True, name="t", shared=False)(note)
    app.tasks["t"].backend = backend
    signals.task_postrun.connect(told)
    try:
        assert ("SUCCESS", "done") in same(app, task)["seen"]
    finally:
        signals.task_postrun.disconnect(told)


def test_the_embedded_come_last(app: Celery) -> None:
    task = app.task(bind=True, name="t", shared=False)(note)
    same(app, task, ([1], {}, NOTHING | {"hostname": "", "is_eager": None}))
    assert is_short(app, task, NOTHING | {"hostname": ""})


@pytest.mark.parametrize("part", ["callbacks", "chain"])
def test_what_follows_a_task_is_celerys(app: Celery, part: str) -> None:
    task = app.task(bind=True, name="t", shared=False)(note)
    assert not is_short(app, task, NOTHING | {part: [app.signature("u", queue="traced")]})


@pytest.mark.parametrize("asked", [True, False, None])
@pytest.mark.parametrize("ignored", [True, False])
@pytest.mark.parametrize("tracked", [True, False])
def test_results(app: Celery, asked: bool | None, ignored: bool, tracked: bool) -> None:
    """They are stored as ever, in the same order; what is ignored is none."""
    app.conf.result_backend = "cache+memory://"
    options = {"ignore_result": ignored, "track_started": tracked, "shared": False}
    keeps = {"store_errors_even_if_ignored": True}
    tasks = [
        app.task(bind=True, name="t", **options)(note),
        app.task(name="f", **options)(fail),
        app.task(name="k", **options, **keeps)(fail),
        app.task(name="e", **options)(unserialisable),
    ]
    stored: list[Any] = []

    def store(self: Any, task_id: str, result: Any, state: str, *how: Any, **named: Any) -> Any:
        stored.append((task_id, repr(result)[:20], state))
        return type(app.backend)._store_result(self, task_id, result, state, *how, **named)

    app.backend._store_result = store.__get__(app.backend)
    for task in tasks:
        found = []
        for way in ways(app, task):
            AsyncResult("id-1", app=app).forget()
            stored.clear()
            left.clear()
            outcome(way, ((), {}, NOTHING), ignore_result=asked)
            found.append((list(stored), AsyncResult("id-1", app=app).state))
        assert found[0] == found[1]
        assert not left
        if asked is None and not ignored:
            assert len(found[0][0]) >= 1 + tracked


def handler(self: Any, *_: Any) -> None:
    seen.append("handler")


class OwnLoader(AppLoader):
    def on_task_init(self, task_id: str, task: Any) -> None:
        seen.append(("init", task_id, task.name, task.request.id))

    def on_process_cleanup(self) -> None:
        seen.append("cleanup")
        raise OwnError


@pytest.mark.parametrize("name", ["before_start", "on_success", "after_return"])
def test_tasks_with_handlers_are_celerys(app: Celery, name: str) -> None:
    base = type("Own", (app.Task,), {name: handler})
    task = app.task(bind=True, base=base, name="t", shared=False)(note)
    assert not is_short(app, task)
    assert "handler" in seen


def test_a_task_with_handlers_of_failures(app: Celery) -> None:
    base = type("Own", (app.Task,), {"on_failure": handler, "on_retry": handler})
    for code in (fail, ignore):
        same(app, app.task(base=base, name=code.__name__, shared=False)(code))
    assert seen == []
    same(app, app.task(base=base, name="again", shared=False)(fail))
    assert seen == ["handler"]


def test_what_the_loader_and_the_backend_do_around_a_task(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Celery("own", broker="memory://", loader=OwnLoader, set_as_current=False) as own:
        task = own.task(bind=True, name="t", shared=False)(note)
        celerys, ours = ways(own, task)
        found = [
            (outcome(way, ((), {}, NOTHING)), logged(caplog), left.clear())
            for way in (celerys, ours)
        ]
        assert found[0] == found[1]
        assert found[0][1] == ["Process cleanup failed: OwnError()"]
        assert is_short(own, task)


def test_no_backend_is_made_where_no_results_are_kept(app: Celery) -> None:
    """Celery makes one for each thread, and each greenlet is one, which takes milliseconds."""
    task = app.task(bind=True, name="t", shared=False)(note)
    _, ours = ways(app, task)
    outcome(ours, ((), {}, NOTHING))
    make, made = app._get_backend, []
    app._get_backend = lambda: made.append(make()) or made[-1]
    with ThreadPoolExecutor(1) as other:
        found = other.submit(outcome, ours, ((), {}, NOTHING)).result()
    assert found["failed"] == 0
    assert made == []


@pytest.mark.newest
def test_a_backend_that_fails(app: Celery, caplog: pytest.LogCaptureFixture) -> None:
    """Errors outside of the task's code are told to ``task_internal_error``, too."""

    def told(sender: Any, exception: Any, **_: Any) -> None:
        seen.append((sender.name, repr(exception)))

    def mark(*_: Any) -> None:
        raise OwnError("gone")

    signals.task_internal_error.connect(told)
    backend = type("Own", (DisabledBackend,), {"mark_as_done": mark})(app=app)
    task = app.task(bind=True, name="t", shared=False)(note)
    app.tasks["t"].backend = backend
    try:
        with pytest.warns(RuntimeWarning, match="raised outside body"):
            found = same(app, task)
    finally:
        signals.task_internal_error.disconnect(told)
    assert found["failed"] == 1
    assert ("t", "OwnError('gone')") in found["seen"]


def test_successes_that_are_looked_up_are_celerys(app: Celery) -> None:
    app.conf.update(
        task_acks_late=True,
        worker_deduplicate_successful_tasks=True,
        result_backend="cache+memory://",
    )
    app.backend.persistent = True
    assert not is_short(app, app.task(bind=True, name="t", shared=False)(note))
