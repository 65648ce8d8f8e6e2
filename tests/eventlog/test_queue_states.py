"""What is written of queues, and from when on it is said to hold."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from celery_fair.brokers.depths import Depth
from celery_fair.eventlog import EventLog, Policy
from celery_fair.settings import QueueOptions
from celery_fair.worker.observe import queue_states
from celery_fair.worker.observe.queue_states import QueueStates
from tests.brokers import Space
from tests.eventlog.reading import Record, records
from tests.faults.proxy import Proxy
from tests.publishing import publish
from tests.waiting import wait_for
from tests.workers import StartWorker


class Scene:
    """One queue of a worker that is not there, and what is written of it. Time stands still."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.began, self._wall = time.monotonic(), time.time_ns()
        monkeypatch.setattr(queue_states, "monotonic", lambda: self.began)
        monkeypatch.setattr(queue_states, "time_ns", lambda: self._wall)
        self.held: str | None = None
        self.depth: Depth | None = None  # what the broker has said last
        self.feed = SimpleNamespace(
            name="q",
            flow=SimpleNamespace(head=None),
            lull=SimpleNamespace(began=self._began_empty, ended_at=0.0),
            gate=SimpleNamespace(options=QueueOptions(quantum=3.0)),
        )
        self.feeds: Any = [self.feed]
        chooser: Any = SimpleNamespace(why=lambda flow, now: (self.held, now))
        depths: Any = SimpleNamespace(ask_about=lambda names: None, of=lambda name: self.depth)
        self.emptied: float | None = None
        log, classes = EventLog(Policy(folder), "w"), {"aimed": 2}
        self.states = QueueStates(self.feeds, chooser, depths, log, classes)

    def _began_empty(self) -> float | None:
        emptied, self.emptied = self.emptied, None
        return emptied

    def ago(self, seconds: float) -> float:
        return self.began - seconds

    def has(self, messages: int, since: float, at: float = 0) -> Depth:
        """What the broker says: since so many seconds ago, last so many ago."""
        return Depth(messages, self.ago(since), self.ago(at))

    def look(self) -> None:
        self.states.look()

    @property
    def written(self) -> list[tuple[str, int | None, int]]:
        """State, depth, and how many seconds before the scene it began."""
        now = self._wall / 1e9
        return [(r["state"], r["depth"], round(now - r["since"] / 1e6)) for r in self.records]

    @property
    def records(self) -> list[Record]:
        return records(self.folder, "queue")


def test_a_queue_with_a_target_has_a_class_of_its_own(scene: Scene) -> None:
    """By which nobody compares its share with another's."""
    aimed = SimpleNamespace(**vars(scene.feed) | {"name": "aimed"})
    scene.feeds.append(aimed)
    for feed in scene.feeds:
        feed.flow = SimpleNamespace(head=1.0)
    scene.look()
    assert {record["queue"]: record["level"] for record in scene.records} == {"q": 0, "aimed": 2}


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


def test_from_when_something_came(scene: Scene) -> None:
    scene.feed.flow.head, scene.feed.lull.ended_at = 1.0, scene.ago(8)
    scene.look()
    scene.look()
    assert scene.written == [("ready", None, 8)]
    assert scene.records[0]["quantum"] == 3.0


def test_from_when_it_ran_empty_while_the_broker_had_some(scene: Scene) -> None:
    scene.feed.flow.head, scene.feed.lull.ended_at, scene.depth = (
        1.0,
        scene.ago(30),
        scene.has(9, since=99),
    )
    scene.look()
    scene.feed.flow.head, scene.emptied = None, scene.ago(20)
    scene.look()
    scene.look()
    scene.feed.flow.head, scene.feed.lull.ended_at = 1.0, scene.ago(10)
    scene.look()
    assert scene.written == [("ready", 9, 30), ("empty", 9, 20), ("ready", 9, 10)]


def test_a_moment_is_enough(scene: Scene) -> None:
    scene.depth, scene.feed.flow.head = scene.has(9, since=99), 1.0
    scene.emptied, scene.feed.lull.ended_at = scene.ago(20), scene.ago(19)
    scene.look()
    assert scene.written == [("empty", 9, 20), ("ready", 9, 19)]


def test_one_moment_and_another(scene: Scene) -> None:
    """Of the first, the broker's answer is waited for."""
    scene.depth, scene.feed.flow.head, scene.feed.lull.ended_at = (
        scene.has(9, 99, 3),
        1.0,
        scene.ago(60),
    )
    scene.look()
    scene.emptied, scene.feed.lull.ended_at = scene.ago(1.9), scene.ago(1.8)
    scene.look()
    scene.emptied, scene.feed.lull.ended_at, scene.depth = (
        scene.ago(0.6),
        scene.ago(0.5),
        scene.has(9, 99),
    )
    scene.look()
    assert [r["state"] for r in scene.records] == ["ready", "empty", "ready", "empty", "ready"]
    sinces = [r["since"] for r in scene.records]
    lasted = [round((until - since) / 1e6, 1) for since, until in pairwise(sinces)]
    assert lasted == [58.1, 0.1, 1.2, 0.1]


def test_a_moment_with_something_is_too_if_it_was_no_trickle(scene: Scene) -> None:
    scene.emptied = scene.ago(50)
    scene.look()
    scene.emptied, scene.feed.lull.ended_at = scene.ago(39.95), scene.ago(40)
    scene.look()
    scene.emptied, scene.feed.lull.ended_at = scene.ago(20), scene.ago(30)
    scene.look()
    states = [("empty", None, 50), ("ready", None, 30), ("empty", None, 20)]
    assert scene.written == states


@pytest.mark.parametrize("known", [True, False])
def test_a_message_that_came_and_went_is_no_backlog(scene: Scene, known: bool) -> None:
    if known:
        scene.depth = scene.has(0, since=99)
    scene.emptied = scene.ago(50)
    scene.look()
    scene.feed.lull.ended_at, scene.emptied = scene.ago(10.01), scene.ago(10)
    for head, emptied in ((None, scene.emptied), (None, None), (None, None)):
        scene.feed.flow.head, scene.emptied = head, emptied
        scene.look()
    for emptied in (None, scene.ago(0.5)):  # one has come just now
        scene.emptied, scene.feed.lull.ended_at, scene.feed.flow.head = (
            emptied,
            scene.ago(0.01),
            1.0,
        )
        scene.look()
    assert [state for state, *_ in scene.written] == ["empty"]


def test_of_a_queue_that_is_asked_it_is_not_known_when_something_came(scene: Scene) -> None:
    """The gap lasts until it was seen that it is over."""
    scene.depth, scene.feed.flow.head = scene.has(9, since=99), 1.0
    scene.look()
    scene.emptied = scene.ago(20)
    scene.look()
    scene.look()
    assert scene.written == [("ready", 9, 0), ("empty", 9, 0), ("ready", 9, 0)]


def test_what_takes_the_place_of_a_record_has_its_time(scene: Scene) -> None:
    """To the microsecond: of two records of one time the later one holds."""
    scene.depth, scene.emptied = scene.has(9, 50, 4), scene.ago(3)
    scene.look()
    scene.began, scene._wall = scene.began + 0.7654321, scene._wall + 765_432_987
    scene.depth = scene.has(9, 50)
    scene.look()
    first, second = scene.records
    assert (first["depth"], second["depth"]) == (None, 9)
    assert first["since"] == second["since"]


def test_a_queue_that_is_cancelled_while_an_answer_is_waited_for(scene: Scene) -> None:
    scene.depth, scene.emptied = scene.has(9, 50, 1.5), scene.ago(1)
    scene.look()
    scene.feeds.clear()
    scene.look()
    scene.feeds.append(scene.feed)
    scene.emptied, scene.depth = None, None
    scene.look()
    gone, again = scene.records
    assert (gone["state"], again["state"]) == ("unassigned", "empty")
    assert again["since"] == scene._wall // 1000  # not since before it was cancelled


def test_what_is_waited_for_is_told_before_a_leash_holds(scene: Scene) -> None:
    scene.depth, scene.feed.flow.head, scene.feed.lull.ended_at = (
        scene.has(9, 50, 1.5),
        1.0,
        scene.ago(30),
    )
    scene.look()
    scene.emptied, scene.feed.lull.ended_at = scene.ago(1), scene.ago(0.5)
    scene.look()
    scene.held, scene.depth = "leash", scene.has(9, 50)
    scene.look()
    assert [r["state"] for r in scene.records] == ["ready", "empty", "ready", "throttled"]


def test_what_the_broker_has_becomes_known_later(scene: Scene) -> None:
    scene.emptied = scene.ago(40)
    scene.look()
    scene.depth = scene.has(9, since=30)
    scene.look()
    scene.depth = scene.has(4, since=30)
    scene.look()
    scene.depth = scene.has(0, since=20)
    scene.look()
    assert scene.written == [("empty", None, 40), ("empty", 9, 30), ("empty", 0, 20)]


def test_what_the_broker_had_before_says_nothing(scene: Scene) -> None:
    """It ran out of just that, a moment ago."""
    scene.depth, scene.feed.flow.head, scene.feed.lull.ended_at = (
        scene.has(9, 50, 1.5),
        1.0,
        scene.ago(30),
    )
    scene.look()
    scene.emptied, scene.feed.flow.head = scene.ago(1), None
    scene.look()
    scene.look()
    scene.depth = scene.has(0, since=0.5)
    scene.look()
    assert scene.written == [("ready", 9, 30), ("empty", 0, 1)]


def test_an_answer_is_waited_for_but_not_for_ever(scene: Scene) -> None:
    scene.depth, scene.emptied = scene.has(9, 50, 4), scene.ago(3)
    scene.look()
    assert scene.written == [("empty", None, 3)]


def test_what_came_to_the_broker_later_is_not_what_was_lacking_before(scene: Scene) -> None:
    """The queue ran out at the broker too, and then new messages came there."""
    scene.feed.flow.head, scene.feed.lull.ended_at = 1.0, scene.ago(60)
    scene.look()
    scene.feed.flow.head, scene.emptied = None, scene.ago(40)
    scene.depth = scene.has(9, since=30)
    scene.look()
    scene.look()
    assert scene.written == [("ready", None, 60), ("empty", None, 40), ("empty", 9, 30)]


def test_what_is_not_known_is_not_starvation(scene: Scene) -> None:
    scene.emptied, scene.depth = scene.ago(40), scene.has(9, since=60)
    scene.look()
    scene.depth = None
    scene.look()
    assert scene.written == [("empty", 9, 40), ("empty", None, 0)]


def test_no_state_reaches_into_the_one_before(scene: Scene) -> None:
    scene.feed.flow.head, scene.feed.lull.ended_at, scene.held = 1.0, scene.ago(30), "leash"
    scene.look()
    scene.held = None
    scene.look()
    assert scene.written == [("throttled", None, 0), ("ready", None, 0)]


def test_another_quantum_and_the_end(scene: Scene) -> None:
    assert scene.states.quanta() == {"q": 3.0}
    scene.look()
    scene.feed.gate.options = QueueOptions(quantum=7.0)
    scene.look()
    assert scene.written[-1] == ("empty", None, 0)  # it held from then on
    scene.states.stop()
    scene.feeds.clear()
    assert [r.get("quantum") for r in scene.records] == [3.0, 7.0, None]
    assert scene.records[-1]["state"] == "unassigned"
    assert scene.states.quanta() == {}


def test_a_queue_that_has_run_out_before_a_stop(scene: Scene) -> None:
    """It did not wait until then, and no answer is waited for."""
    scene.depth, scene.feed.flow.head, scene.feed.lull.ended_at = (
        scene.has(9, 99, 3),
        1.0,
        scene.ago(30),
    )
    scene.look()
    scene.feed.flow.head, scene.emptied = None, scene.ago(1)
    scene.states.stop()
    assert [r["state"] for r in scene.records] == ["ready", "empty", "unassigned"]
    empty = scene.records[1]
    assert (empty["depth"], round(scene._wall / 1e9 - empty["since"] / 1e6)) == (None, 1)


def test_a_queue_that_is_cancelled(scene: Scene) -> None:
    scene.look()
    scene.feeds.clear()
    scene.look()
    scene.look()
    assert [r["state"] for r in scene.records] == ["empty", "unassigned"]


@pytest.mark.wide
def test_a_slow_link_is_seen_in_the_log(
    rabbitmq_space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    conf: dict[str, Any] = {"fair_event_log": str(log), "fair_queues": {"a": {"prefetch": 5}}}
    with Proxy(rabbitmq_space) as proxy:
        warnings = {"PYTHONWARNINGS": "default::ResourceWarning"}
        worker = start_worker(proxy.url, queues=["a"], conf=conf, env=warnings)
        proxy.slow(20_000)
        publish(rabbitmq_space.url, {"a": 400})

        def told() -> list[Record]:
            return [r for r in records(log, "queue") if r["queue"] == "a"]

        starved = wait_for(lambda: [r for r in told() if r["depth"]], 30, "a word of it")[0]
        assert starved["state"] == "empty"
        assert starved["since"] <= starved["at"]
        proxy.release()
        wait_for(lambda: (told()[-1]["state"], told()[-1]["depth"]) == ("empty", 0), 30, "its end")
        assert worker.stop() == 0
    assert "Traceback" not in worker.log()
    assert "ResourceWarning" not in worker.log()
