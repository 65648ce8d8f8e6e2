"""What waits for its ETA is its partition's: it goes with it to the next owner."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from celery_fair.groups import store_at
from celery_fair.groups.document import amend
from tests.brokers import Space
from tests.groups.fleet import QUEUE, STEADY, Fleet
from tests.integration.depths import left, ready
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker

P0 = f"{QUEUE}.0"
SOON = 10
"""Seconds: a partition is revoked earlier."""


@pytest.mark.parametrize("task", ["keyed", "keyed_once"])
def test_eta_of_a_revoked_partition(
    space: Space, start_worker: StartWorker, tmp_path: Path, task: str
) -> None:
    url = f"sqlite:///{tmp_path}/g.db"
    fleet = Fleet(space, start_worker, tmp_path, url, 1, lease=STEADY)
    with closing(store_at(url)) as store:
        worker = fleet.worker()
        fleet.wait_counts([1], worker)
        fleet.send("a", 0, task, countdown=SOON)
        wait_equal(lambda: (ready(space, P0), left(space, P0)), (0, 1))

        amend(store, QUEUE, lambda group: group.taking_out({P0}))
        wait_equal(lambda: ready(space, P0), 1)
        wait_equal(lambda: [kind for kind, _ in fleet.told()], ["assigned", "revoked"])

        amend(store, QUEUE, lambda group: group.putting_back({P0}))
        fleet.records.finished.wait(1, SOON + 20)
    fleet.send("a", 1, task)
    fleet.records.finished.wait(2)
    wait_for(lambda: len(fleet.of("ended")) == 2, 10, lambda: str(fleet.events))
    assert [event["number"] for event in fleet.of("began")] == [0, 1]
    tokens = {event["token"] for event in fleet.of("began")}
    assert tokens == {fleet.of("assigned")[1]["partitions"][P0]}
    assert worker.stop() == 0
