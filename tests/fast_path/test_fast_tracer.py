"""What becomes of a task is the same, whichever way it is run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import pytest
from celery import Celery, current_task, signals
from celery.app.task import Task as BaseTask
from celery.app.trace import build_tracer, fast_trace_task
from celery.backends.base import DisabledBackend
from celery.exceptions import Ignore, Reject, WorkerShutdown
from celery.loaders.app import AppLoader
from celery.result import AsyncResult

from celery_fair.worker.express.fast_tracer import fast_tracer

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


def ways(app: Celery, task: Any) -> tuple[Way, Way | None]:
    """Celery's way and ours to run a task."""
    task = app.tasks[task.name]
    task.__trace__ = build_tracer(task.name, task, app.loader, HOST, app=app)
    found = app.tasks, {"application/json"}, HOST

    def celerys(*args: Any) -> Any:
        return fast_trace_task(task.name, *args, None, None, _loc=found)

    run = fast_tracer(task, HOST)
    return celerys, run and (lambda *args: run(task.name, *args, None, None, _loc=found))


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
    """Run a task both ways; the second time ours, without Celery's text of the result."""
    celerys, ours = ways(app, task)
    assert ours is not None
    expected, found = outcome(celerys, body, **more), outcome(ours, body, **more)
    if expected["failed"] == 0:
        del expected["value"], found["value"]
    assert found == expected
    return found


def is_short(app: Celery, task: Any, embed: Any = NOTHING, **more: Any) -> bool:
    """Whether a task was run our way."""
    _, ours = ways(app, task)
    assert ours is not None
    failed, text, _ = ours("id-1", request(**more), ([], {}, embed))
    assert failed == 0
    return bool(text == "")


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
    """It is told and logged alike, with a frame of ours more in its traceback."""

    def failed(sender: Any, einfo: Any, traceback: Any, **told: Any) -> None:
        del traceback
        frames = without_ours(str(einfo.traceback).splitlines())
        seen.append((sender.name, frames, {name: repr(value) for name, value in told.items()}))

    task = app.task(name="t", shared=False)(code)
    signals.task_failure.connect(failed)
    try:
        with caplog.at_level(logging.WARNING):
            celerys, ours = ways(app, task)
            assert ours is not None
            found = outcome(celerys, ((), {}, NOTHING)), logged(caplog)
            assert (outcome(ours, ((), {}, NOTHING)), logged(caplog)) == found
    finally:
        signals.task_failure.disconnect(failed)


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record.getMessage().splitlines()[0] for record in caplog.records]
    caplog.clear()
    return lines


def without_ours(lines: list[str]) -> list[str]:
    ours = [
        i for i, line in enumerate(lines) if fast_tracer.__module__.split(".")[-1] + ".py" in line
    ]
    frames = [i for i in ours if __file__ not in lines[i]]
    return [line for i, line in enumerate(lines) if i not in frames and i - 1 not in frames]


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
    assert ours is not None
    noted = [no_id(outcome(way, ((), {}, NOTHING))["seen"]) for way in (celerys, ours)]
    assert noted[0] == noted[1]
    assert len(noted[0]) == 4


SIGNALS = {"prerun": signals.task_prerun, "postrun": signals.task_postrun}
SIGNALS["success"] = signals.task_success


@pytest.mark.parametrize("name", SIGNALS)
def test_whoever_listens_is_told(app: Celery, name: str) -> None:
    def told(sender: Any, **what: Any) -> None:
        what.pop("runtime", None)
        seen.append((sender.name, {key: repr(value) for key, value in what.items()}))

    task = app.task(bind=True, name="t", shared=False)(note)
    assert is_short(app, task)
    SIGNALS[name].connect(told)
    try:
        assert len(same(app, task)["seen"]) == 2
        assert not is_short(app, task)
    finally:
        SIGNALS[name].disconnect(told)
    assert is_short(app, task)


@pytest.mark.newest  # others may have told those that listened before
@pytest.mark.parametrize("code", [None, fail, leave], ids=lambda code: code and code.__name__)
def test_who_listens_since_the_task_has_started(
    app: Celery, code: Callable[..., None] | None
) -> None:
    def told(signal: Any, state: str = "", runtime: float = 1, **_: Any) -> None:
        seen.append((signal.name, state, runtime > 0))

    def listen() -> None:
        for signal in SIGNALS.values():
            signal.connect(told)
        if code:
            code()

    task = app.task(name="t", shared=False)(listen)
    celerys, ours = ways(app, task)
    assert ours is not None
    found = []
    for way in (celerys, ours):
        try:
            found.append(outcome(way, ((), {}, NOTHING)))
        finally:
            for signal in SIGNALS.values():
                signal.disconnect(told)
    assert found[0] == found[1] | {"value": found[0]["value"]}
    assert found[0]["seen"]


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
    assert ours is not None
    task.__trace__ = build_tracer(task.name, task, app.loader, HOST, app=app)
    assert ours("id-1", request(), ([], {}, NOTHING))[1] != ""


def test_the_embedded_come_last(app: Celery) -> None:
    task = app.task(bind=True, name="t", shared=False)(note)
    same(app, task, ([1], {}, NOTHING | {"hostname": "", "is_eager": None}))
    assert is_short(app, task, NOTHING | {"hostname": ""})


@pytest.mark.parametrize("part", ["callbacks", "errbacks", "chain"])
def test_what_follows_a_task_is_celerys(app: Celery, part: str) -> None:
    task = app.task(bind=True, name="t", shared=False)(note)
    assert not is_short(app, task, NOTHING | {part: [app.signature("u", queue="traced")]})


@pytest.mark.newest
def test_results(app: Celery) -> None:
    """They are stored as ever; what is ignored is none."""
    app.conf.result_backend = "cache+memory://"
    task = app.task(bind=True, name="t", shared=False)(note)
    failing = app.task(name="f", shared=False)(fail)
    keeping = app.task(name="k", shared=False, store_errors_even_if_ignored=True)(fail)
    for ignored, states in ((True, ("PENDING", "PENDING", "FAILURE")), (False, None)):
        assert is_short(app, task, ignore_result=ignored) is ignored
        for each, state in zip(
            (task, failing, keeping), states or ("SUCCESS", "FAILURE", "FAILURE"), strict=True
        ):
            for way in ways(app, each):
                assert way is not None
                AsyncResult("id-1", app=app).forget()
                outcome(way, ((), {}, NOTHING), ignore_result=ignored)
                assert AsyncResult("id-1", app=app).state == state


def handler(self: Any, *_: Any) -> None: ...


class OwnLoader(AppLoader):
    def on_task_init(self, task_id: str, task: Any) -> None: ...


@pytest.mark.parametrize("name", ["before_start", "on_success", "after_return"])
def test_tasks_with_handlers_are_celerys(app: Celery, name: str) -> None:
    base = type("Own", (app.Task,), {name: handler})
    assert ways(app, app.task(bind=True, base=base, name="t", shared=False)(note))[1] is None


def test_other_tasks_that_are_celerys(app: Celery, caplog: pytest.LogCaptureFixture) -> None:
    task = app.task(bind=True, name="t", shared=False)(note)
    task = app.tasks["t"]
    celerys, ours = ways(app, task)
    assert ours is not None
    task.__trace__ = celerys
    assert fast_tracer(task, HOST) is None  # somebody's own
    task.__trace__ = None
    assert fast_tracer(task, HOST) is None
    with caplog.at_level(logging.INFO, "celery.app.trace"):
        assert ways(app, task)[1] is None  # each end is logged
    task.backend = type("Own", (DisabledBackend,), {"mark_as_done": handler})(app=app)
    assert ways(app, task)[1] is None
    task.backend = app.backend
    assert is_short(app, task)
    task.track_started = True
    assert not is_short(app, task)
    with Celery("own", broker="memory://", loader=OwnLoader, set_as_current=False) as own:
        assert ways(own, own.task(bind=True, name="t", shared=False)(note))[1] is None
