"""Whether a request may start: by the broker's word, the ledger's, and the acknowledgement."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from amqp import RecoverableConnectionError

from celery_fair.brokers.mover import NotTakenError
from celery_fair.brokers.redis_acks import NotHeldError
from celery_fair.core.disposition import Delivery
from celery_fair.dead_letters.death import DUPLICATE, REDELIVERED
from celery_fair.headers import STRICT
from celery_fair.tasks import claimable
from celery_fair.worker.launch.admission import Admission
from celery_fair.worker.queues.reports import Reports
from tests.feeds import ports
from tests.worker.parts import Burials, Request, Silent, non_repeatable, shelf


class Scene:
    """Admission, its ports, and one message of a task."""

    def __init__(self, delivery: Delivery = Delivery.FRESH, owner: str = "", **task: Any) -> None:
        self._judged = delivery, "work", owner
        self.forgotten: list[str] = []
        self.confirmed: list[Any] = []
        self.given_back: list[dict[str, Any]] = []
        self.error: Exception | None = None
        self.burials = Burials()
        known: Any = self
        self.has_room = True
        self.later: list[Callable[[], object]] = []
        self.admission = Admission(
            self,
            known,
            self.burials,  # type: ignore[arg-type]
            known,
            [self.admitted],
            lambda seconds, call: self.later.append(call),
        )
        self.reports = Reports(Silent())
        self.feed = shelf(ports=ports()._replace(reports=self.reports))
        [self.message] = self.feed.put("a")
        self.request = Request(self.message, non_repeatable(**task))
        self.ordinary = Request(self.message)

    def admits(self) -> bool:
        return self.admission.admits(self.request)

    # As the log.

    def admitted(self, request: Any) -> bool:
        assert not self.message.acknowledged
        return self.has_room

    # As the ledger's claims.

    def judge(self, request: Any) -> tuple[Delivery, str, str]:
        return self._judged

    def give_up(self, work: str) -> None:
        self.forgotten.append(work)

    # As the broker's connection, and as mover.

    def acknowledge(self, message: Any) -> None:
        if self.error is not None:
            raise self.error
        message.ack()

    def flush(self) -> None: ...

    def confirm(self, message: Any) -> None:
        self.confirmed.append(message)

    def give_back(self, message: Any, headers: dict[str, Any]) -> None:
        if self.error is not None:
            raise self.error
        self.given_back.append(headers)


def test_a_repeatable_task_may_start_without_a_word() -> None:
    scene = Scene(Delivery.REDELIVERED)
    assert scene.admission.admits(scene.ordinary)
    assert not scene.message.acknowledged


def test_a_repeatable_task_starts_unless_the_broker_has_it_still() -> None:
    scene = Scene()
    scene.feed.channel.error = ConnectionResetError("cut")
    assert scene.admission.acknowledged_early(scene.ordinary)
    assert not scene.ordinary.acknowledged  # Celery tries it once more

    scene.feed.channel.error = RecoverableConnectionError("nothing was written")
    assert not scene.admission.acknowledged_early(scene.ordinary)

    scene.feed.channel.error = None
    assert scene.admission.acknowledged_early(scene.ordinary)
    assert scene.ordinary.acknowledged


def test_it_is_acknowledged_before_it_starts() -> None:
    scene = Scene()
    assert scene.admits()
    assert scene.message.acknowledged
    assert scene.request.acknowledged
    assert scene.message.claimed == "work"
    assert scene.confirmed == []


def test_or_at_the_end() -> None:
    scene = Scene(ack="after")
    assert scene.admits()
    assert not scene.message.acknowledged
    scene.admission.not_acknowledged(scene.request, ConnectionResetError("cut before it started"))
    assert scene.forgotten == ["work"]


def test_confirm_waits_for_the_broker() -> None:
    scene = Scene(confirm=True)
    assert scene.admits()
    assert scene.confirmed == [scene.message]


def test_an_ordinary_task_may_call_something_confirm() -> None:
    scene = Scene()
    shop = SimpleNamespace(confirm="by mail", acks_late=False)
    assert scene.admission.acknowledged_early(Request(scene.message, shop))
    assert scene.message.acknowledged
    assert scene.confirmed == []


@pytest.mark.parametrize("error", [ConnectionResetError("cut"), NotHeldError("another has it")])
def test_what_cannot_be_acknowledged_does_not_start_and_claims_nothing(error: Exception) -> None:
    scene = Scene()
    scene.error = error
    assert not scene.admits()
    assert not scene.request.acknowledged
    assert scene.forgotten == ["work"]
    assert scene.burials.buried == {}


@pytest.mark.parametrize("ack", ["before", "after"])
def test_what_was_delivered_before_is_a_dead_letter(ack: str) -> None:
    scene = Scene(Delivery.REDELIVERED, ack=ack)
    assert not scene.admits()
    assert scene.burials.buried == {"a": (REDELIVERED, True)}
    assert scene.request.events == ["task-rejected"]


def test_what_another_message_has_claimed_is_a_duplicate() -> None:
    scene = Scene(Delivery.CLAIMED, owner="b")
    assert not scene.admits()
    assert scene.burials.buried == {"a": (DUPLICATE, True)}


@pytest.mark.parametrize("attempt", ["", "1 "], ids=["formerly", "now"])
@pytest.mark.parametrize("id_", ["a", "a" * 300], ids=["short", "long"])
def test_what_it_has_claimed_itself_may_have_started(id_: str, attempt: str) -> None:
    scene = Scene(Delivery.CLAIMED, owner=f"{attempt}{claimable(id_)}")
    scene.request.id = id_
    assert not scene.admits()
    assert scene.burials.buried == {"a": (REDELIVERED, True)}


def test_what_is_proved_unstarted_starts() -> None:
    assert Scene(Delivery.UNSTARTED).admits()


def test_without_the_ledgers_word_it_is_marked_and_given_back() -> None:
    scene = Scene(Delivery.UNKNOWN)
    assert not scene.admits()
    assert scene.given_back == [{STRICT: True}]
    assert scene.burials.buried == {}


def test_a_mark_says_which_attempt_had_no_answer() -> None:
    scene = Scene(Delivery.UNKNOWN, owner="7")
    assert not scene.admits()
    assert scene.given_back == [{STRICT: "7"}]


def test_what_cannot_be_marked_now_waits_and_is_judged_anew() -> None:
    """Others pass it, and at a warm stop it goes back, as what waits for the log does."""
    scene = Scene(Delivery.UNKNOWN)
    scene.error = NotTakenError("under an alarm")
    assert not scene.admits()
    assert scene.feed.aside.messages == [scene.message]
    assert scene.feed.room.parked == 1
    [again] = scene.later
    list(scene.reports.take())
    again()
    assert list(scene.reports.take()) == [(scene.feed, scene.request)]
    assert (scene.message.aside, scene.feed.room.parked) == ("", 0)
    scene.error = None
    assert not scene.admits()
    assert scene.given_back == [{STRICT: True}]


def test_a_lost_connection_makes_nothing_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The window of what is put off cannot grow any more."""
    scene = Scene(Delivery.UNKNOWN)
    scene.error = ConnectionResetError("cut")

    def cut() -> None:
        raise ConnectionResetError

    monkeypatch.setattr(scene.feed, "_apply_window", cut)
    assert not scene.admits()
    assert scene.burials.buried == {}


@pytest.mark.parametrize("ack", ["before", "after"])
def test_what_cannot_be_recorded_waits(ack: str) -> None:
    """Its claim is given up, and it comes again as what was put off does."""
    scene = Scene(ack=ack)
    scene.has_room = False
    assert not scene.admits()
    assert not scene.message.acknowledged
    assert (scene.message.aside, scene.feed.room.parked, scene.forgotten) == ("eta", 1, ["work"])
    [again] = scene.later
    list(scene.reports.take())
    again()
    assert list(scene.reports.take()) == [(scene.feed, scene.request)]
    assert (scene.message.aside, scene.feed.room.parked) == ("", 0)
    scene.has_room = True
    assert scene.admits()


def test_so_do_those_that_keep_others_waiting() -> None:
    """The window does not grow by them; they are no affair of Celery's, and may go back."""
    scene = Scene()
    scene.has_room = False
    for message in scene.feed.put(*map(str, range(100))):
        scene.feed.aside.put(message, eta=True)
    assert not scene.admits()
    assert (scene.message.aside, scene.feed.room.limited) == ("later", 1)
    [again] = scene.later
    again()
    assert (scene.message.aside, scene.feed.room.limited) == ("", 0)


def test_what_was_given_back_meanwhile_does_not_come_due() -> None:
    scene = Scene()
    scene.has_room = False
    scene.admits()
    scene.message.ack()
    [again] = scene.later
    again()
    assert scene.feed.room.parked == 0


def test_what_must_not_start_needs_no_record() -> None:
    scene = Scene(Delivery.REDELIVERED)
    scene.has_room = False
    assert not scene.admits()
    assert not scene.later
