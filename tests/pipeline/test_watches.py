"""What is an alert and what is not, subject by subject; without Spark."""

from __future__ import annotations

from typing import Any

from celery_fair.pipeline.stream.watches import Alert, Event, Limits, watch

LIMITS = Limits(leashes={"q": (2.0, 3.0)})


class Subject:
    """Feeds news and keeps what is remembered, as Spark would."""

    def __init__(self, about: str) -> None:
        self.about = about
        self.state: dict[str, Any] | None = None
        self.seconds: float | None = None
        self.number = 0

    def hears(self, *news: Event) -> list[str]:
        """Return the names of the alerts."""
        return [alert.alert for alert in self.alerts(*news)]

    def alerts(self, *news: Event) -> list[Alert]:
        found, memory = watch(self.about, "key", self.state, news, LIMITS)
        self.state, self.seconds = memory
        return found

    def times_out(self) -> list[str]:
        assert self.seconds is not None
        return self.hears()


def event(at: float, state: str = "", depth: int = 0, heartbeat: float = 0.0) -> Event:
    return Event(f"e{at:g}", at, "celery@a", "q", "t", state, depth, heartbeat)


def test_second_start_and_no_copy_of_the_first() -> None:
    task = Subject("start")
    assert task.hears(event(1), event(1)) == []
    assert task.hears(event(1)) == []
    assert task.hears(event(2)) == ["duplicate-start"]
    assert task.hears(event(1), event(2)) == []
    assert task.hears(event(4), event(3)) == ["duplicate-start"] * 2
    assert task.times_out() == []
    assert task.state is None


def test_starvation_is_told_once_a_time() -> None:
    queue = Subject("queue")
    assert queue.hears(event(1, "ready"), event(10, "empty", 5), event(39, "empty", 7)) == []
    (alert,) = queue.alerts(event(40, "empty", 9))
    assert (alert.alert, alert.at) == ("starvation", 10)
    assert queue.hears(event(40, "empty", 9), event(90, "empty", 9)) == []
    assert queue.hears(event(91, "ready"), event(92, "empty", 1)) == []
    assert queue.times_out() == ["starvation"]
    assert queue.times_out() == []
    assert queue.state is None


def test_starvation_that_ended_between_two_records() -> None:
    queue = Subject("queue")
    assert queue.hears(event(10, "empty", 5), event(40, "ready")) == ["starvation"]


def test_queue_that_is_empty_everywhere_is_well() -> None:
    queue = Subject("queue")
    assert queue.hears(event(10, "empty", 0), event(100, "empty", 0)) == []
    assert queue.times_out() == []


def test_leash() -> None:
    queue = Subject("leash")
    assert queue.hears(event(0.0), event(0.1), event(0.2)) == []  # the burst
    assert queue.hears(event(0.5), event(1.0), event(1.5)) == []  # and the rate
    (alert,) = queue.alerts(event(1.75))
    assert (alert.alert, alert.at) == ("leash-breach", 1.75)
    assert queue.hears(event(1.75)) == []
    assert queue.hears(event(1.7)) == []  # it came late, and is part of what has been told
    assert queue.hears(event(1.8)) == ["leash-breach"]
    assert queue.hears(event(60)) == []


def test_silence() -> None:
    process = Subject("process")
    assert process.hears(event(0, "boot", heartbeat=10)) == []
    assert process.seconds == 3 * 10 + 60
    assert process.hears(event(10, "heartbeat", heartbeat=10)) == []
    assert process.times_out() == ["silence"]
    assert process.hears(event(10, "heartbeat", heartbeat=10)) == []  # a copy
    assert process.state is not None
    assert process.state["told"]
    assert process.hears(event(50, "heartbeat", heartbeat=10)) == []
    assert process.times_out() == ["silence"]


def test_end_is_no_silence() -> None:
    for end in ("exit", "dead"):
        process = Subject("process")
        assert process.hears(event(0, "boot", heartbeat=10), event(5, end)) == []
        assert process.hears(event(4, "heartbeat", heartbeat=10)) == []
        assert process.times_out() == []
        assert process.state is None


def test_process_without_heartbeats_is_not_missed() -> None:
    process = Subject("process")
    assert process.hears(event(0, "boot")) == []
    assert process.seconds == LIMITS.memory
