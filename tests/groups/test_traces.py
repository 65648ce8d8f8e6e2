"""The sources' traces, with real workers: who has how many as workers come and go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from celery_fair.core.groups.membership import Group
from celery_fair.groups import GroupStore, store_at
from celery_fair.groups.document import decoded
from tests.brokers import Space
from tests.groups.fleet import QUEUE, STEADY, Fleet, check_one_by_one, check_told
from tests.groups.stores import LASTING, store_url
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker

OTHERS = [
    pytest.param(
        kind, marks=[pytest.mark.newest, *([] if kind == "zookeeper" else [pytest.mark.wide])]
    )
    for kind in LASTING
    if kind != "redis"
]


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
    check_one_by_one(fleet, {key: [0, 1, 2] for key in keys})
    check_told(fleet, {b.hostname})


@pytest.mark.newest
@pytest.mark.either_broker
def test_spare_workers_change_nothing(
    space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Not while it comes, nor while it is there, nor when it goes."""
    url = f"sqlite:///{tmp_path}/g.db"
    fleet = Fleet(space, start_worker, tmp_path, url, partitions=2, lease=STEADY / 4)
    with closing(store_at(url)) as store:
        group = partial(group_in, store)
        a, b = fleet.worker(), fleet.worker()
        fleet.wait_counts([1, 1], a, b)
        before, grants = fleet.told(), group().grants
        spare = fleet.worker()
        wait_for(lambda: len(group().members) == 3, 20, "the spare one to join")
        everybody_takes_turns(group)
        fleet.publish(["a", "g"], 2)
        fleet.records.finished.wait(4)
        assert spare.stop() == 0
        wait_equal(lambda: len(group().members), 2)
        everybody_takes_turns(group)
        assert group().grants == grants
    assert fleet.told() == before
    check_one_by_one(fleet, {"a": [0, 1], "g": [0, 1]})


def group_in(store: GroupStore) -> Group:
    return decoded(store.read(QUEUE).text)


def everybody_takes_turns(group: Callable[[], Group]) -> None:
    """Each of them has read what is there now, as it has written after that."""
    before = group().members
    wait_for(partial(renewed, group, before), 20, f"all of {before} to renew their leases")


def renewed(group: Callable[[], Group], before: Mapping[str, float]) -> bool:
    members = group().members
    return all(members[name] > ends for name, ends in before.items())
