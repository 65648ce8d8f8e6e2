"""The sources' traces, with real workers: who has how many as workers come and go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import Space
from tests.groups.fleet import STEADY, Fleet
from tests.groups.stores import LASTING, store_url
from tests.waiting import wait_for
from tests.workers import StartWorker

OTHERS = [pytest.param(kind, marks=pytest.mark.newest) for kind in LASTING if kind != "redis"]


@pytest.fixture(params=["redis", *OTHERS])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a store, in turn of each kind."""
    yield from store_url(request.param, request, tmp_path)


@pytest.mark.either_broker
def test_workers_come_and_go(
    space: Space, start_worker: StartWorker, tmp_path: Path, store: str
) -> None:
    fleet = Fleet(space, start_worker, tmp_path, store)
    a = fleet.worker()
    fleet.wait_counts([6], a)
    b, c = fleet.worker(), fleet.worker()
    fleet.wait_counts([2, 2, 2], a, b, c)
    assert a.stop() == 0
    fleet.wait_counts([3, 3], b, c)
    b.kill()
    fleet.wait_counts([6], c)
    keys = [f"customer{number}" for number in range(20)]
    published = fleet.publish(keys, 3)
    fleet.records.finished.wait(published)
    assert c.stop() == 0
    check_order(fleet, keys, 3)


def check_order(fleet: Fleet, keys: list[str], each: int) -> None:
    """Each key's messages began one after another, and none before the one before had ended."""
    seen: dict[str, list[tuple[str, int]]] = {key: [] for key in keys}
    for event in fleet.events:
        if event["kind"] in {"began", "ended"}:
            seen[event["key"]].append((event["kind"], event["number"]))
    expected = [(kind, number) for number in range(each) for kind in ("began", "ended")]
    assert seen == dict.fromkeys(keys, expected)


@pytest.mark.newest
def test_spare_workers_change_nothing(
    space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path}/g.db"
    fleet = Fleet(space, start_worker, tmp_path, store, partitions=2, lease=STEADY)
    a, b = fleet.worker(), fleet.worker()
    fleet.wait_counts([1, 1], a, b)
    before = fleet.events
    spare = fleet.worker()
    assert spare.stop() == 0
    fleet.publish(["x", "y"], 1)
    fleet.records.finished.wait(2)
    said = [event["kind"] for event in fleet.events[len(before) :]]
    assert set(said) == {"began", "ended"}
    wait_for(lambda: fleet.counts(a, b) == [1, 1], 5, "both still have theirs")
