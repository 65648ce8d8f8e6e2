"""A group whose broker or store is away for a while, or comes back empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from celery_fair.groups import StoreUnreachableError, store_at
from celery_fair.groups.document import decoded
from tests.brokers import RedisServer, Space, ZooKeeper
from tests.faults.proxy import Proxy
from tests.groups.churn import KEYS, began
from tests.groups.fleet import STEADY, Fleet
from tests.waiting import wait_for
from tests.workers import StartWorker, WorkerProcess

Store = RedisServer | ZooKeeper


def kinds(fleet: Fleet) -> list[str]:
    """Of what was said of partitions, in order."""
    return [e["kind"] for e in fleet.events if e["kind"] in {"assigned", "revoked", "failed"}]


def changes(fleet: Fleet) -> list[str]:
    """Of what is owned, in order; a store that is slow for a moment fails, and changes nothing."""
    return [kind for kind in kinds(fleet) if kind != "failed"]


def leases(url: str) -> dict[str, float]:
    """By member, when its lease ends; nothing while the store does not answer."""
    store = store_at(url)
    try:
        return dict(decoded(store.read("customers").text).members)
    except StoreUnreachableError:
        return {}
    finally:
        store.close()


@pytest.mark.parametrize("kind", ["redis", pytest.param("zookeeper", marks=pytest.mark.wide)])
def test_store_fails(
    rabbitmq_space: Space,
    request: pytest.FixtureRequest,
    start_worker: StartWorker,
    tmp_path: Path,
    kind: str,
) -> None:
    store: Store = request.getfixturevalue(f"own_{kind}")
    url = store.url()
    fleet = Fleet(rabbitmq_space, start_worker, tmp_path, url, lease=12)
    worker = fleet.worker()
    fleet.wait_counts([6], worker)

    comes_back_in_time(fleet, store, url)
    comes_back_too_late(fleet, store, worker)
    if isinstance(store, RedisServer):
        loses_its_data(fleet, store)
    assert worker.stop() == 0


def comes_back_in_time(fleet: Fleet, store: Store, url: str) -> None:
    """Nobody loses anything."""
    store.kill()
    wait_for(lambda: "failed" in kinds(fleet), 20, "somebody to notice")
    store.start()
    store.wait_ready()
    for _ in range(2):  # the answer to the last one may be under way
        before = wait_for(lambda: leases(url), 20, "the store")
        wait_for(lambda before=before: leases(url) not in ({}, before), 20, "a turn")
    assert changes(fleet) == ["assigned"]


def comes_back_too_late(fleet: Fleet, store: Store, worker: WorkerProcess) -> None:
    """Work goes on until the lease is nearly over, stops, and goes on when the store is back."""
    failures = kinds(fleet).count("failed")
    store.kill()
    fleet.publish(KEYS, 1)
    fleet.records.finished.wait(len(KEYS))
    fleet.wait_counts([0], worker)
    assert changes(fleet) == ["assigned", "revoked"]
    assert kinds(fleet).count("failed") == failures + 1
    failure = next(event for event in fleet.events if event["kind"] == "failed")
    assert failure["will_recover"] is True

    fleet.publish(KEYS, 1)
    store.start()
    store.wait_ready()
    fleet.wait_counts([6], worker)
    fleet.records.finished.wait(2 * len(KEYS))


def loses_its_data(fleet: Fleet, store: RedisServer) -> None:
    """The group forms anew; its tokens are greater than those before."""
    tokens, before = fleet.database.tokens(), changes(fleet)
    store.flush("0")
    anew = [*before, "revoked", "assigned"]
    wait_for(lambda: changes(fleet) == anew, 20, lambda: f"{kinds(fleet)}")
    fleet.publish(KEYS, 1)
    fleet.records.finished.wait(3 * len(KEYS))
    newest = fleet.database.tokens()
    assert newest.keys() == tokens.keys()
    assert all(newest[name] > token for name, token in tokens.items())


@pytest.mark.either_broker("redis")
def test_broker_is_away(own_space: Space, start_worker: StartWorker, tmp_path: Path) -> None:
    """Of one worker, then of both: each keeps its partitions, and works on when it is back."""
    store = f"sqlite:///{tmp_path}/g.db"
    fleet = Fleet(own_space, start_worker, tmp_path, store, lease=STEADY)
    with Proxy(own_space) as proxy:
        a, b = fleet.worker(proxy.url), fleet.worker()
        fleet.wait_counts([3, 3], a, b)
        before, said = fleet.owned(a, b), kinds(fleet)
        proxy.cut()
        fleet.publish(KEYS, 1)
        fleet.records.finished.wait(len(KEYS))
        own_space.server.restart()
        fleet.publish(KEYS, 1)
        fleet.records.finished.wait(2 * len(KEYS))
        assert fleet.owned(a, b) == before
        assert kinds(fleet) == said
        assert {event["worker"] for event in began(fleet)} == {a.hostname, b.hostname}


def test_broker_is_away_while_another_joins(
    space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Who has no broker keeps nobody else from what is planned for them."""
    store = f"sqlite:///{tmp_path}/g.db"
    fleet = Fleet(space, start_worker, tmp_path, store, lease=STEADY)
    with Proxy(space) as proxy:
        a = fleet.worker(proxy.url)
        fleet.wait_counts([6], a)
        proxy.refuse()
        proxy.cut()
        b = fleet.worker()
        wait_for(lambda: fleet.counts(b) == [3], 30, lambda: f"three partitions: {fleet.events}")
        fleet.publish(KEYS, 1)
        wait_for(lambda: {e["worker"] for e in began(fleet)} == {b.hostname}, 30, "b to work")
        proxy.release()
        fleet.wait_counts([3, 3], a, b)
        fleet.records.finished.wait(len(KEYS))
        assert {event["worker"] for event in began(fleet)} == {a.hostname, b.hostname}
