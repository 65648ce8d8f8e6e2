"""What a task sees of its request, and the backend that it has, are Celery's."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.app import trace
from celery.app.task import Context
from celery.app.trace import build_tracer, fast_trace_task

from celery_fair.worker import patches
from celery_fair.worker.fast_path.fast_requests import FastRequests

NOTHING = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}

seen: list[dict[str, Any]] = []


@pytest.fixture
def app() -> Iterator[Celery]:
    with Celery("running", broker="memory://", set_as_current=False) as app:
        seen.clear()
        yield app


def note(task: Any, *args: Any, **kwargs: Any) -> None:
    seen.append(vars(task.request).copy())


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
def test_a_task_sees_the_same(
    app: Celery, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    app.task(bind=True, name="t", shared=False)(note)
    task = app.tasks["t"]
    task.__trace__ = build_tracer("t", task, app.loader, "worker@here", app=app)
    monkeypatch.setattr(trace, "_localized", [app.tasks, {"application/json"}, "worker@here"])
    monkeypatch.setattr(Context, "_get_custom_headers", Context._get_custom_headers)
    for change in (lambda: None, patches.find_own_headers_faster):
        change()
        request = {"id": "i", "task": "t", "lang": "py", "retries": 0, "argsrepr": "()", **more}
        assert (
            fast_trace_task("t", "i", request, ([1, "ä"], {"x": [2]}, NOTHING), None, None)[0] == 0
        )
    assert seen[0] == seen[1]


def test_no_backend_is_made_where_no_results_are_kept(app: Celery) -> None:
    """Celery makes one for each thread, and each greenlet is one, which takes milliseconds."""
    app.task(bind=True, name="t", shared=False)(note)
    consumer = SimpleNamespace(
        app=app,
        connection_errors=(),
        call_soon=None,
        controller=SimpleNamespace(state=SimpleNamespace(revoked=set())),
        event_dispatcher=None,
        hostname="worker@here",
        hub=None,
        pool=SimpleNamespace(apply_async=None, body_can_be_buffer=True),
        strategies={"t": None},
    )
    assert FastRequests(consumer)._maker("t") is not None
    with ThreadPoolExecutor(1) as other:
        assert other.submit(lambda: app.tasks["t"].backend).result() is app.tasks["t"].backend
