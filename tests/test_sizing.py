"""How large the windows of a worker's queues are: by share, by class, by leash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kombu import Connection, Queue

from celery_fair.core.dwrr import Flow
from celery_fair.core.gate import Gate
from celery_fair.core.targets import Target
from celery_fair.core.window import LEAST, RefillMeter
from celery_fair.settings import QueueOptions
from celery_fair.worker.dispatch.sizing import Sizing
from celery_fair.worker.queues.feed import Feed
from celery_fair.worker.queues.virtual import VirtualFeed
from tests.fairness.ten_queues import QUANTA
from tests.feeds import ports

ALIKE = {"a": QueueOptions(1), "b": QueueOptions(1), "c": QueueOptions(1)}
LEASHED = QueueOptions(1, rate=1, burst=5)
"""The source's own example: its window is ten."""

MakeFeeds = Callable[[dict[str, QueueOptions]], dict[str, Feed]]


def at_start(options: dict[str, QueueOptions], least_total: int = 0) -> dict[str, int]:
    """The windows that a worker opens its queues with."""
    sizing = Sizing(options.__getitem__, RefillMeter())
    queues = [Queue(name) for name in options]
    return {name: sizing.first(name, queues, least_total) for name in options}


@pytest.fixture
def feeds_of() -> Iterator[MakeFeeds]:
    """Makes feeds with a window of `LEAST` each."""
    with Connection("memory://") as connection:

        def made(options: dict[str, QueueOptions]) -> dict[str, Feed]:
            feeds: dict[str, Feed] = {}
            for name, each in options.items():
                flow = Flow(name, each.quantum)
                known: dict[str, Any] = {
                    "flow": flow,
                    "window": LEAST,
                    "gate": Gate(each, None),
                    "ports": ports(),
                }
                feeds[name] = VirtualFeed(queue=Queue(name), channel=connection.channel(), **known)
            return feeds

        yield made


def adapted(feeds: dict[str, Feed], rate: int) -> dict[str, int]:
    """The windows of a worker that has started so many messages in the second before."""
    sizing = Sizing(lambda name: feeds[name].gate.options, meter := RefillMeter(delay=0.0))
    meter.interval(0.0)
    meter.started(rate)
    while not sizing.adapt(feeds.values(), 1.0, least_total=0):
        pass
    return {name: feed.window.size for name, feed in feeds.items()}


def test_what_has_a_target_waits_for_no_refill(feeds_of: MakeFeeds) -> None:
    target = Target(0.95, 1.0)
    options = {"mail": QueueOptions(0.01, target=target), "bulk": QueueOptions(100)}
    assert at_start(options, least_total=200) == {"mail": 100, "bulk": 100}
    windows = adapted(feeds_of(options), rate=10_000)
    assert windows["mail"] == windows["bulk"]


def test_windows_are_in_proportion_to_the_quanta(feeds_of: MakeFeeds) -> None:
    options = {name: QueueOptions(quantum) for name, quantum in QUANTA.items()}
    twice = {name: 2 * quantum for name, quantum in QUANTA.items()}
    assert at_start(options, least_total=2 * sum(QUANTA.values())) == twice
    assert adapted(feeds_of(options), rate=10_000) == twice


def test_what_costs_more_needs_a_smaller_window(feeds_of: MakeFeeds) -> None:
    feeds = feeds_of({"cheap": QueueOptions(40), "dear": QueueOptions(40)})
    feeds["dear"].flow.last_cost = 4.0
    assert adapted(feeds, rate=10_000) == {"cheap": 80, "dear": 20}


def test_windows_double_per_class(feeds_of: MakeFeeds) -> None:
    classes = {f"class {level}": QueueOptions(5, level=level) for level in range(4)}
    doubled = {"class 0": 10, "class 1": 20, "class 2": 40, "class 3": 80}
    assert at_start(classes, least_total=150) == doubled
    assert adapted(feeds_of(classes), rate=10_000) == doubled


def test_a_leash_bounds_the_window(feeds_of: MakeFeeds) -> None:
    """To the burst and five seconds of work at the rate; the others keep what is theirs."""
    options = ALIKE | {"a": LEASHED}
    assert at_start(options, least_total=3000) == {"a": 10, "b": 1000, "c": 1000}
    large = {name: QueueOptions(1000, rate=o.rate, burst=o.burst) for name, o in options.items()}
    assert adapted(feeds_of(large), rate=10_000) == {"a": 10, "b": 2000, "c": 2000}


@pytest.mark.parametrize(
    ("rate", "burst", "window"), [(10.0, 5, 55), (0.01, 1, 2), (0.3, 1, 3), (1000.0, 1, 3000)]
)
def test_the_window_of_a_leash(rate: float, burst: int, window: int) -> None:
    options = {"a": QueueOptions(1, rate=rate, burst=burst)}
    assert at_start(options, least_total=3000) == {"a": window}


def test_a_leash_that_is_set_later_bounds_the_window_too(feeds_of: MakeFeeds) -> None:
    """Even one that is not so much too large that it would be changed otherwise."""
    feeds = feeds_of({"a": QueueOptions(15)})
    assert adapted(feeds, rate=10_000) == {"a": 30}
    feeds["a"].gate.options = LEASHED
    assert adapted(feeds, rate=10_000) == {"a": 10}


def test_what_the_user_says_is_the_window(feeds_of: MakeFeeds) -> None:
    options = ALIKE | {"a": QueueOptions(1, prefetch=70, rate=1, burst=5, level=3)}
    assert at_start(options, least_total=3000)["a"] == 70
    feeds = feeds_of(options)
    feeds["a"].resize(60)
    assert adapted(feeds, rate=10_000)["a"] == 70


def test_a_window_that_is_about_right_is_left_alone(feeds_of: MakeFeeds) -> None:
    feeds = feeds_of({"a": QueueOptions(15)})
    for before, after in ((23, 30), (24, 24), (119, 119), (120, 30)):
        feeds["a"].resize(before, exactly=True)
        assert adapted(feeds, rate=10_000) == {"a": after}


def test_one_window_is_changed_at_a_time(feeds_of: MakeFeeds) -> None:
    """Between two changes the worker starts what there is to start."""
    feeds = feeds_of({f"q{number}": QueueOptions(10) for number in range(3)})
    sizing = Sizing(lambda name: feeds[name].gate.options, meter := RefillMeter(delay=0.0))
    meter.interval(0.0)
    meter.started(10_000)

    def changed() -> int:
        return sum(feed.window.size != LEAST for feed in feeds.values())

    assert not sizing.adapt(feeds.values(), 1.0, 0)
    assert changed() == 1
    _, gone = feeds.popitem()  # it is not consumed any more
    while not sizing.adapt(feeds.values(), 1.001, 0):
        pass
    assert (changed(), gone.window.size) == (2, LEAST)


def test_a_worker_that_rests_plans_no_more_until_it_is_told_to_or_works(
    feeds_of: MakeFeeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a thousand queues that is all that it would do."""
    feeds = feeds_of(ALIKE)
    sizing = Sizing(lambda name: feeds[name].gate.options, meter := RefillMeter())
    planned: list[str] = []
    for name, feed in feeds.items():
        monkeypatch.setattr(feed, "resize", lambda *_, name=name: planned.append(name))

    def adapt(now: float) -> int:
        planned.clear()
        sizing.adapt(feeds.values(), now, 0)
        return len(planned)

    assert [adapt(1.0), adapt(2.0), adapt(3.0)] == [3, 0, 0]
    sizing.at_once()
    assert adapt(3.01) == 3
    assert adapt(4.0) == 0
    meter.started(100)
    assert adapt(5.0) == 3


def test_the_first_windows_are_planned_once_for_all() -> None:
    asked: list[str] = []
    options = {f"q{number}": QueueOptions(number + 1) for number in range(50)}

    def options_of(name: str) -> QueueOptions:
        asked.append(name)
        return options[name]

    sizing = Sizing(options_of, RefillMeter())
    queues = [Queue(name) for name in options]
    windows = {name: sizing.first(name, queues, 1000) for name in options}
    assert windows == at_start(options, 1000)
    assert len(asked) <= 2 * len(options)
