"""A killed worker's letters: seen, refused, replayed by an operator's order, and run once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.brokers import Space
from tests.dead_letters.conftest import Box
from tests.integration.depths import left
from tests.integration.gate import Gate
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import StartWorker

CONF: dict[str, Any] = {"broker_transport_options": {"visibility_timeout": 2}}


@pytest.mark.parametrize("ledger", [False, True], ids=["strict", "ledger"])
def test_letters_of_a_killed_worker(
    space: Space, start_worker: StartWorker, gate: Gate, tmp_path: Path, ledger: bool
) -> None:
    conf = CONF | ({"fair_ledger": f"sqlite:///{tmp_path}/ledger.db"} if ledger else {})
    options: dict[str, Any] = {
        "app": "tests.apps.once",
        "pool": "threads",
        "concurrency": 2,
        "queues": ["a"],
        "conf": conf,
    }
    first = start_worker(space, **options)
    ids = publish(space.url, {"a": 2}, "after", [str(gate.path)]).all()
    records = first.records
    records.started.wait_ids(ids)
    first.kill()
    first.process.end()
    second = start_worker(space, **options)
    box = Box(space.url, **conf)
    with box.connection:
        wait_equal(lambda: sorted(box.ids("--reason", "redelivered")), sorted(ids), 30)
        second.stop()
        gate.open()

        report = box.order("replay", "--all", "--task", "after", status=1)
        assert sorted(report["refused"]) == sorted(ids)
        assert len(box.ids()) == 2

        report = box.order("replay", "--all", "--task", "after", "--may-have-started")
        assert sorted(report["replayed"]) == sorted(ids)

        third = start_worker(space, **options)
        third.records.finished.wait_once(ids)
        assert records.started.times(ids) == dict.fromkeys(ids, 2)
        wait_equal(lambda: left(space, "a"), 0)
        assert box.ids() == []
