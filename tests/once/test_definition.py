"""What contradicts a non-repeatable task is refused where it is defined."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from billiard.einfo import ExceptionInfo
from billiard.exceptions import TimeLimitExceeded
from celery import Celery
from celery.exceptions import ImproperlyConfigured
from celery.worker.request import Request

from celery_fair import NonRepeatableTask


def work() -> None:
    """Only its definition counts."""


def define(**options: Any) -> Any:
    with Celery("definitions", set_as_current=False) as app:
        app.conf.task_acks_late = True
        return app.task(base=NonRepeatableTask, lazy=False, shared=False, **options)(work)


@pytest.mark.parametrize(("ack", "late"), [("before", False), ("after", True)])
def test_ack_decides_on_acks_late(ack: str, late: bool) -> None:
    assert define(ack=ack).acks_late is late


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"ack": "never"}, "ack must be one of 'before', 'after', not 'never'"),
        ({"ack": None}, "not None"),
        ({"confirm": 1}, "confirm must be True or False, not 1"),
        ({"ack": "after", "confirm": True}, "confirm belongs to ack = 'before'"),
        ({"acks_late": True}, "contradicts ack = 'before'"),
        ({"ack": "after", "acks_late": False}, "contradicts ack = 'after'"),
        ({"reject_on_worker_lost": True}, "reject_on_worker_lost"),
        ({"autoretry_for": (OSError,)}, "autoretry_for"),
    ],
)
def test_contradiction(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="work is non-repeatable") as caught:
        define(**options)
    assert reason in str(caught.value)


@pytest.mark.parametrize("kind", ["map", "starmap", "chunks"])
def test_what_runs_it_within_another_task(kind: str) -> None:
    each = [(n,) for n in range(4)]
    with pytest.raises(ImproperlyConfigured, match=r"publish a task for each: group\("):
        getattr(define(), kind)(each, *([2] if kind == "chunks" else []))


def test_retry() -> None:
    with pytest.raises(ImproperlyConfigured, match="cannot be retried"):
        define().retry()


@pytest.mark.parametrize(
    ("annotated", "reason"),
    [
        ({"retry_on_worker_lost": True}, "retry_on_worker_lost"),
        ({"acks_late": True}, "contradicts ack = 'before'"),
    ],
)
def test_annotations_contradict_too(annotated: dict[str, Any], reason: str) -> None:
    with Celery("definitions", set_as_current=False) as app:
        app.conf.task_annotations = {"*": annotated}
        with pytest.raises(ImproperlyConfigured, match=reason):
            app.task(base=NonRepeatableTask, lazy=False, shared=False)(work)


@pytest.mark.parametrize("error", [ValueError("declined"), TimeLimitExceeded(5)])
def test_a_failure_is_acknowledged_whatever_the_app_says_of_others(error: Exception) -> None:
    """By the names that these options have in each version of Celery."""
    with Celery("definitions", set_as_current=False, broker="memory://") as app:
        app.conf.update(task_acks_on_failure_or_timeout=False, task_ignore_result=True)
        options = {"base": NonRepeatableTask, "ack": "after", "name": "work", "shared": False}
        app.task(lazy=False, **options)(work)
        message = Recorded("work")
        request = Request(message, app=app, on_ack=message.ack, on_reject=message.reject)
        with pytest.raises(type(error)) as caught:
            raise error
        request.on_failure(ExceptionInfo((caught.type, caught.value, caught.tb)))
        assert message.became == ["acknowledged"]


class Recorded:
    """As much of a message as Celery asks for."""

    properties: ClassVar[dict[str, Any]] = {}
    delivery_info: ClassVar[dict[str, Any]] = {}
    content_type, content_encoding = "application/json", "utf-8"

    def __init__(self, task: str) -> None:
        self.headers = {"id": "a", "task": task, "argsrepr": "()", "kwargsrepr": "{}"}
        self.body, self.payload = "[[], {}, {}]", ((), {}, {})
        self.became: list[str] = []

    def ack(self, *_: Any, **__: Any) -> None:
        self.became.append("acknowledged")

    def reject(self, *_: Any, **__: Any) -> None:
        self.became.append("rejected")
