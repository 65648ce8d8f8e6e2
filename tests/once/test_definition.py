"""What contradicts a non-repeatable task is refused where it is defined."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery
from celery.exceptions import ImproperlyConfigured

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
