"""A server that does not answer is left alone, so that the loop does not wait for it."""

from __future__ import annotations

import pytest

from celery_fair.worker import away
from celery_fair.worker.away import Away


class Server:
    """It takes its time, on a clock of its own, and answers or not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.takes, self.answers, self.asked = 0.0, 2.0, False, 0
        self.said: list[str] = []
        monkeypatch.setattr(away, "monotonic", lambda: self.now)
        self.away = Away(lambda exc: self.said.append(str(exc)), lambda: self.said.append("back"))

    def ask(self) -> str:
        self.asked += 1
        self.now += self.takes
        if not self.answers:
            raise OSError("no route")
        return "yes"

    def asked_at(self, now: float) -> str | None:
        self.now = now
        return self.away.asked(self.ask, OSError)


def test_it_is_left_alone_for_twenty_times_as_long_as_it_was_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(monkeypatch)
    assert [server.asked_at(now) for now in (0.0, 2.0, 41.9)] == [None] * 3
    assert server.asked == 1
    assert server.asked_at(42.0) is None
    server.answers = True
    assert [server.asked_at(now) for now in (44.0, 84.0, 86.0)] == [None, "yes", "yes"]
    assert server.asked == 4
    assert server.said == ["no route", "back"]


def test_but_no_longer_where_the_worker_itself_took_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(monkeypatch)
    server.takes = 30.0
    assert [server.asked_at(now) for now in (0.0, 69.9, 70.0)] == [None] * 3
    assert server.asked == 2


def test_and_for_a_second_if_it_refuses_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch)
    server.takes = 0.0
    assert [server.asked_at(now) for now in (0.0, 0.9, 1.0)] == [None] * 3
    assert server.asked == 2
