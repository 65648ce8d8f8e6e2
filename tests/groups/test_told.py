"""What a worker is told of its partitions, in which order, and when it stops by itself."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from celery_fair.core.groups.membership import Group, Terms
from celery_fair.groups import store_at
from celery_fair.groups.document import amend, decoded
from tests.brokers import Space
from tests.groups.fleet import QUEUE, STEADY, Fleet, check_told
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker

P0, P1, P2 = (f"{QUEUE}.{number}" for number in range(3))


def test_revoked_before_assigned(
    redis_space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    """In one turn, in several, and between two workers."""
    url = f"sqlite:///{tmp_path}/g.db"
    fleet = Fleet(redis_space, start_worker, tmp_path, url, 3, lease=STEADY)
    with closing(store_at(url)) as store:
        amend(store, QUEUE, lambda group: group.of(frozenset({P0, P1, P2})).taking_out({P2}))
        a = fleet.worker()
        wait_equal(fleet.told, [("assigned", {P0, P1})])

        amend(store, QUEUE, lambda group: group.taking_out({P1}).putting_back({P2}))
        wait_for(lambda: len(fleet.told()) == 3, 20, lambda: str(fleet.told()))
        assert fleet.told()[1:] == [("revoked", {P1}), ("assigned", {P2})]

        amend(store, QUEUE, without_owners)
        wait_for(lambda: len(fleet.told()) == 5, 20, lambda: str(fleet.told()))
        assert fleet.told()[3:] == [("revoked", {P0, P2}), ("assigned", {P0, P2})]

        b = fleet.worker()
        fleet.wait_counts([1, 1], a, b)
        (revoked, moved), (assigned, to) = fleet.told()[5:]
        assert (revoked, assigned, moved) == ("revoked", "assigned", to)
        assert b.stop() == 0
        assert len(decoded(store.read(QUEUE).text).members) == 1
        fleet.wait_counts([2], a)
        assert fleet.told()[7:] == [("revoked", moved), ("assigned", moved)]
    check_told(fleet)


def without_owners(group: Group) -> Group:
    """As others make it who find that all leases have run out."""
    grants = {name: replace(grant, owner=None) for name, grant in group.grants.items()}
    return replace(group, members={}, grants=grants)


def test_stops_before_its_lease_ends(
    redis_space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Until then, by the store's clock, the others believe in it; and the store does not answer."""
    path = tmp_path / "g.db"
    fleet = Fleet(redis_space, start_worker, tmp_path, f"sqlite:///{path}", 1, lease=9)
    worker = fleet.worker()
    fleet.wait_counts([1], worker)
    with silent(path) as ends:
        fleet.wait_counts([0], worker)
    (revoked,) = fleet.of("revoked")
    assert revoked["at"] < ends  # by the margin, were the machine at once there
    fleet.wait_counts([1], worker)


LOOKS = 4.0
SELDOM = f"""
from celery_fair.worker import partitions
partitions._LOOKS = {LOOKS}
from tests.apps.partitioned import *
"""
"""A worker whose loop seldom looks at its partitions."""


def test_begins_nothing_after_its_lease(
    redis_space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Though its loop has not noticed yet that it is over."""
    url = f"sqlite:///{tmp_path}/g.db"
    lease = LOOKS / 2
    fleet = Fleet(redis_space, start_worker, tmp_path, url, 1, lease=lease)
    worker = fleet.worker(app=SELDOM)
    fleet.wait_counts([1], worker)
    (assigned,) = fleet.of("assigned")
    over = assigned["at"] + Terms(lease).safe
    wait_for(lambda: time.monotonic() > over, 20, "the end of the lease")
    fleet.send("a", 0, "keyed")
    fleet.records.finished.wait(1)
    (began,) = fleet.of("began")
    assert began["at"] > assigned["at"] + LOOKS - 0.5


@contextmanager
def silent(path: Path) -> Iterator[float]:
    """Let nobody else read or write; yield when the one member's lease ends, by this clock."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        wait_for(lambda: locked(connection), 20, "the database")
        ((text,),) = connection.execute("SELECT document FROM celery_fair_groups")
        (ends,) = decoded(text).members.values()
        yield ends - time.time() + time.monotonic()
        connection.execute("ROLLBACK")


def locked(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError:
        return False
    return True
