"""What becomes of messages that do not simply start."""

from __future__ import annotations

from typing import Any

import pytest

from celery_fair.dead_letters.death import LOST, MALFORMED, REJECTED, UNKNOWN
from celery_fair.worker.letters import Dispositions
from tests.worker.parts import Burials, non_repeatable, shelf


class Mover:
    """Gives back to nowhere."""

    def __init__(self, in_place: bool) -> None:
        self.in_place = in_place
        self.given_back: list[str] = []

    def give_back(self, message: Any, headers: Any) -> None:
        self.given_back.append(message.headers["id"])

    def give_back_all(self, messages: Any) -> None:
        for message in messages:
            self.give_back(message, {})


class Scene:
    def __init__(self, in_place: bool = False) -> None:
        self.mover, self.burials = Mover(in_place), Burials()
        tasks = {"once": non_repeatable(), "t": object()}
        parts: Any = (self.mover, self.burials)
        self.dispositions = Dispositions(tasks, *parts)
        self.feed = shelf()

    def message(self, **headers: Any) -> Any:
        return self.feed.put("a", **headers)[0]


def test_by_its_headers_a_message_starts_once() -> None:
    scene = Scene()
    assert scene.dispositions.starts_once(scene.message(task="once"))
    assert not scene.dispositions.starts_once(scene.message(task="t"))
    assert not scene.dispositions.starts_once(scene.message(task=["once"]))


@pytest.mark.parametrize(
    ("task", "in_place", "moved"), [("once", False, True), ("t", False, False), ("t", True, True)]
)
def test_what_is_given_back(task: str, in_place: bool, moved: bool) -> None:
    """A requeued message counts as redelivered; one that must start once is moved instead."""
    scene = Scene(in_place)
    message = scene.message(task=task)
    scene.dispositions.give_back([message])
    assert scene.mover.given_back == ["a"] * moved
    assert message.acknowledged is not moved


@pytest.mark.parametrize(
    ("headers", "reason", "started"),
    [
        ({"task": "t"}, MALFORMED, False),
        ({"task": "nobody knows it"}, UNKNOWN, False),
        ({"task": 5}, MALFORMED, False),
        ({"task": "t", "redelivered": True}, MALFORMED, True),
    ],
)
def test_what_no_task_is_started_for(headers: Any, reason: str, started: bool) -> None:
    scene = Scene()
    scene.dispositions.refuse(scene.message(**headers), ValueError("no"))
    assert scene.burials.buried == {"a": (reason, started)}


def test_what_its_task_rejects() -> None:
    scene = Scene()
    message = scene.message(task="once")
    message.hand_over(1.0)
    scene.dispositions.refuse(message, None)
    assert scene.burials.buried == {"a": (REJECTED, True)}


def test_what_is_settled_is_left_alone() -> None:
    scene = Scene()
    message = scene.message()
    message.ack()
    scene.dispositions.refuse(message, None)
    assert scene.burials.buried == {}


def test_whose_process_has_died() -> None:
    scene = Scene()
    scene.dispositions.worker_lost(scene.message(task="once"))
    assert scene.burials.buried == {"a": (LOST, True)}


def test_what_is_no_message() -> None:
    scene = Scene()
    scene.dispositions.garbage(scene.feed, b"garbage", ValueError("no"))
    assert scene.burials.raw == [b"garbage"]
