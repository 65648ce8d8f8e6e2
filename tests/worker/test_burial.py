"""A message that could not be moved is tried again, as long as its connection lives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery_fair.dead_letters.death import LOST, properties_of
from celery_fair.headers import CLAIM
from celery_fair.worker.letters import DeadLetters
from tests.worker.parts import shelf


class Mover:
    """Fails as often as it is told to."""

    def __init__(self, failures: int) -> None:
        self.failures, self.tries = failures, 0

    def dead_letter(self, message: Any, headers: Any) -> bool:
        self.tries += 1
        self.headers = headers
        if self.tries <= self.failures:
            raise ConnectionError("the broker takes nothing")
        message.ack()
        return True


class Scene:
    def __init__(self, failures: int) -> None:
        self.mover = Mover(failures)
        self.later: list[Callable[[], object]] = []
        mover: Any = self.mover
        self.letters = DeadLetters("w", mover, lambda seconds, call: self.later.append(call))
        [self.message] = shelf().put("a")

    def dead_letter(self) -> None:
        self.letters.dead_letter(self.message, LOST)

    def try_again(self) -> None:
        later, self.later = self.later, []
        for call in later:
            call()


def test_it_is_tried_again_until_it_is_moved() -> None:
    scene = Scene(failures=2)
    scene.dead_letter()
    scene.try_again()
    scene.try_again()
    assert scene.message.acknowledged
    assert scene.later == []


def test_not_when_its_connection_is_over() -> None:
    """Its acknowledgement would never arrive, and each try would leave another copy."""
    scene = Scene(failures=9)
    scene.dead_letter()
    scene.letters.close()
    scene.try_again()
    assert scene.mover.tries == 1
    assert scene.later == []


def test_a_dead_letter_is_deleted_by_nobody() -> None:
    [message] = shelf().put("a")
    message.properties["expiration"] = "9"
    assert "expiration" not in properties_of(message, {}, dead=True)["properties"]
    assert properties_of(message, {}, dead=False)["properties"]["expiration"] == "9"


def test_what_its_work_was_claimed_by_is_said_whatever_the_reason() -> None:
    """Or its replay would meet its own claim."""
    scene = Scene(failures=1)
    scene.message.claim("work")
    scene.dead_letter()
    scene.try_again()
    assert scene.mover.headers[CLAIM] == "work"
