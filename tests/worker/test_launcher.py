"""From the choice of a request to its start, without a pool and without a broker."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from celery_fair.worker.launch.in_flight import InFlight
from celery_fair.worker.launch.launcher import Launcher
from celery_fair.worker.launch.requests import Handover
from tests.worker.parts import Request, Silent, non_repeatable, shelf


class Scene:
    """Launcher, with everything around it written down in `log`."""

    def __init__(self, batch: int = 1, asks: bool = False, acks_first: bool = False) -> None:
        self.log: list[Any] = []
        self.asks = asks
        self.error: Exception | None = None
        self.admitted = True
        self.in_flight = InFlight()
        slots: Any = SimpleNamespace(count=lambda: 9, fill=self._fill, in_flight=self.in_flight)
        self.handover = Handover(Silent())
        requests: Any = SimpleNamespace(offer=partial(self.handover.offer, Request), prepare=None)
        self.launcher = Launcher(
            slots,
            requests,
            self,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            batch,
            lambda: self.log.append("handed over"),
            acks_first,
            [self.note],
        )
        self.feed = shelf()

    def request(self, name: str, task: Any = None) -> Request:
        [message] = self.feed.put(name)
        return Request(message, task)

    def _fill(self, request: Any) -> None:
        self.log.append(request.id)
        if request.name == "fails":
            raise ValueError("the pool does not like it")

    # As admission.

    def admits(self, request: Any) -> bool:
        return self.admitted

    def acknowledged_early(self, request: Any) -> bool:
        self.log.append(f"ack {request.id}")
        return True

    def not_acknowledged(self, request: Any, exc: Exception) -> None:
        self.log.append(f"not acknowledged: {request.id}")

    # As the broker's connection, and as who watches.

    def flush(self, more: bool = False) -> None:
        if self.error is not None:
            raise self.error
        self.log.append("more" if more else "flush")

    def note(self, request: Any) -> None:
        self.log.append(f"note {request.id}")


def test_they_depart_together() -> None:
    scene = Scene()
    for name in "ab":
        assert scene.launcher.take(scene.request(name))
    assert scene.log == []
    assert len(scene.in_flight) == 2
    assert scene.launcher.launch()
    assert scene.log == ["note a", "a", "note b", "b", "handed over"]
    assert not scene.launcher.launch()


def test_the_last_slot_waits_for_no_other() -> None:
    scene = Scene()
    for name in "abcdefgh":
        scene.launcher.take(scene.request(name))
    assert scene.log == []
    scene.launcher.take(scene.request("i"))
    assert scene.log[-1] == "handed over"


def test_a_non_repeatable_one_waits_for_no_other() -> None:
    scene = Scene(batch=1)
    scene.launcher.take(scene.request("a", non_repeatable()))
    assert scene.log == ["flush", "note a", "a", "handed over"]


def test_so_many_non_repeatable_ones_go_together() -> None:
    scene = Scene(batch=3)
    for name in "ab":
        scene.launcher.take(scene.request(name, non_repeatable()))
    assert scene.log == []
    scene.launcher.take(scene.request("c", non_repeatable()))
    assert scene.log[0] == "flush"
    assert [entry for entry in scene.log if len(entry) == 1] == ["a", "b", "c"]


def test_where_messages_are_asked_for_none_waits() -> None:
    scene = Scene(asks=True)
    scene.launcher.take(scene.request("a"))
    assert "a" in scene.log


def test_what_could_not_be_acknowledged_does_not_start() -> None:
    scene = Scene(batch=9)
    for name in "ab":
        scene.launcher.take(scene.request(name, non_repeatable()))
    scene.launcher.take(scene.request("unacknowledged"))
    scene.error = ConnectionResetError("cut")
    scene.launcher.launch()
    assert scene.log == ["not acknowledged: a", "not acknowledged: b"]
    assert len(scene.in_flight) == 0


def test_of_a_closed_channel_only_that_starts_which_may_start_twice() -> None:
    scene = Scene(batch=2)
    scene.launcher.take(scene.request("a"))
    scene.launcher.take(scene.request("b", non_repeatable()))
    scene.feed.die()
    scene.launcher.launch()
    assert scene.log == ["more", "note a", "a", "not acknowledged: b", "handed over"]
    assert len(scene.in_flight) == 1


def test_but_what_may_start_twice_does_if_the_broker_may_have_forgotten_it() -> None:
    scene = Scene(batch=9, acks_first=True)
    scene.launcher.take(scene.request("a"))
    scene.launcher.take(scene.request("late", SimpleNamespace(name="t", acks_late=True)))
    scene.launcher.take(scene.request("once", non_repeatable()))
    scene.error = ConnectionResetError("cut")
    scene.launcher.launch()
    assert scene.log[-3:] == ["note a", "a", "not acknowledged: once"]
    assert [request.id for request in scene.in_flight] == ["a"]


def test_repeatable_ones_are_acknowledged_first_if_told_to() -> None:
    scene = Scene(acks_first=True)
    scene.launcher.take(scene.request("a"))
    scene.launcher.take(scene.request("late", SimpleNamespace(name="t", acks_late=True)))
    assert scene.log == ["ack a"]


def test_the_revoked_and_the_refused_take_no_slot() -> None:
    scene = Scene()
    revoked = scene.request("a")
    revoked.is_revoked = True
    assert not scene.launcher.take(revoked)
    scene.admitted = False
    assert not scene.launcher.take(scene.request("b", non_repeatable()))
    assert len(scene.in_flight) == 0
    assert scene.log == []


def test_a_message_with_impossible_limits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    request = scene.request("a")
    request.time_limits = ("soon", None)  # type: ignore[assignment]
    refused: list[Any] = []
    monkeypatch.setattr(scene.feed.dispositions, "refuse", lambda *what: refused.append(what))
    assert not scene.launcher.take(request)
    assert [message.headers["id"] for message, _ in refused] == ["a"]


def test_a_slot_is_free_again_if_the_pool_does_not_take_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    request = scene.request("a")
    request.name = "fails"
    monkeypatch.setattr(
        scene.feed.dispositions, "refuse", lambda *what: scene.log.append("refused")
    )
    scene.launcher.take(request)
    scene.launcher.launch()
    assert scene.log[-2:] == ["refused", "handed over"]
    assert len(scene.in_flight) == 0


def test_the_short_way_makes_a_request_of_a_message() -> None:
    scene = Scene()
    [message] = scene.feed.put("a")
    assert scene.launcher.offer(message).message is message


class Celery:
    """What Celery may do with a message that it is handed."""

    def __init__(self, handover: Handover) -> None:
        self.handover = handover

    def takes(self, message: Any) -> None:
        self.handover.on_request(Request(message))

    def keeps_for_its_eta(self, message: Any) -> None:
        self.handover.prefetch_raised()

    def keeps_for_its_rate(self, message: Any) -> None: ...

    def drops(self, message: Any) -> None:
        message.ack()

    def fails(self, message: Any) -> None:
        raise TypeError("a body of another shape")


@pytest.mark.parametrize(
    ("what", "aside"),
    [("keeps_for_its_eta", "eta"), ("keeps_for_its_rate", "limit"), ("drops", "")],
)
def test_what_celery_does_with_a_message(what: str, aside: str) -> None:
    scene = Scene()
    [message] = scene.feed.put("a")
    assert scene.handover.offer(getattr(Celery(scene.handover), what), message) is None
    assert message.aside == aside
    assert scene.feed.room.parked == (aside == "eta")


def test_a_request_of_the_offered_message_is_returned_and_a_later_one_is_due() -> None:
    scene = Scene()
    [message] = scene.feed.put("a")
    request = scene.handover.offer(Celery(scene.handover).takes, message)
    assert request.message is message

    with pytest.raises(AssertionError, match="nothing is put off here"):
        scene.handover.on_request(request)  # reported by the feed


def test_whatever_a_message_contains_it_is_refused_and_the_worker_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    [message] = scene.feed.put("a")
    errors: list[Any] = []

    def refuse(message: Any, exc: BaseException | None) -> None:
        errors.append(exc)
        message.ack()

    monkeypatch.setattr(scene.feed.dispositions, "refuse", refuse)
    assert scene.handover.offer(Celery(scene.handover).fails, message) is None
    assert [type(error) for error in errors] == [TypeError]
    assert message.aside == ""


def test_a_pool_that_grows_wakes_it() -> None:
    wake_up = Silent()
    Handover(wake_up).prefetch_raised()
    assert wake_up.rings == 1


def test_a_turn_that_is_broken_off_leaves_no_slot_behind() -> None:
    """Only what may start twice starts, if it may have been acknowledged; all else comes again."""
    scene = Scene(batch=9, acks_first=True)
    scene.launcher.take(scene.request("a"))
    scene.launcher.take(scene.request("b", non_repeatable()))
    scene.launcher.take(scene.request("c", SimpleNamespace(name="t", acks_late=True)))
    scene.launcher.abandon()
    assert scene.log[-3:] == ["note a", "a", "not acknowledged: b"]
    assert [request.id for request in scene.in_flight] == ["a"]
    assert not scene.launcher.launch()
