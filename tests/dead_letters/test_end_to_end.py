"""Letters of killed workers, and of work done: seen, refused, replayed by order, and run once."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from celery_fair.headers import PUBLISHED
from tests.brokers import Space
from tests.dead_letters.conftest import Box
from tests.integration.depths import left
from tests.integration.gate import Gate
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker

CONF: dict[str, Any] = {"broker_transport_options": {"visibility_timeout": 2}}


@pytest.mark.wide
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


@pytest.mark.either_broker
def test_work_that_another_message_has_done_is_not_done_again(
    space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    """A duplicate has provably not started, and is replayed only by who has looked at the work."""
    conf = CONF | {"fair_ledger": f"sqlite:///{tmp_path}/ledger.db"}
    worker = start_worker(space, app="tests.apps.once", queues=["a"], conf=conf)
    headers = {PUBLISHED: time.time()}
    ids = publish(space.url, {"a": 2}, "order", ["refund 1"], headers=headers).all()
    rows = ({"id": id_, "retries": 0, "published": headers[PUBLISHED]} for id_ in ids)
    proven = tmp_path / "replayable.jsonl"
    proven.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    box = Box(space.url, **conf)
    with box.connection:
        wait_equal(lambda: len(box.ids("--reason", "duplicate")), 1, 30)
        duplicate = box.ids()

        assert box.order("replay", "--provable", str(proven))["replayed"] == []
        assert box.ids() == duplicate
        assert worker.records.started.times(duplicate) == {}

        report = box.order("replay", *duplicate, "--may-have-started")
        assert report["replayed"] == duplicate
        worker.records.finished.wait_once(ids)


@pytest.mark.parametrize("fetch", [pytest.param("push", marks=pytest.mark.wide), "pull"])
def test_what_waits_at_a_killed_worker_on_redis(
    redis_space: Space, start_worker: StartWorker, fetch: str
) -> None:
    """It is a dead letter though it has not started: what is in the window; of a pull, nothing."""
    soon = {"visibility_timeout": 2, "unacked_restore_interval": 1}
    conf = {"broker_transport_options": soon}
    leashed = {"fair_queues": {"a": {"rate": "1/h", "burst": 1, "fetch": fetch}}}
    options: dict[str, Any] = {"app": "tests.apps.once", "pool": "threads", "queues": ["a"]}
    first = start_worker(redis_space, concurrency=2, conf=conf | leashed, **options)
    ids = publish(redis_space.url, {"a": 40}, "before").all()
    first.records.finished.wait(1)
    if fetch == "push":
        wait_for(lambda: redis_space.depths()["unacked"].unacked > 0, 30, "a window")
    first.kill()
    first.process.end()
    held = redis_space.depths()["unacked"].unacked
    assert (held > 0) == (fetch == "push")

    start_worker(redis_space, conf=conf, **options)
    box = Box(redis_space.url, **conf)
    with box.connection:
        wait_equal(lambda: len(box.ids("--reason", "redelivered")), held, 60)
        started = first.records.started
        started.wait(len(ids) - held)
        assert sorted([*started.times(ids), *box.ids()]) == sorted(ids)
