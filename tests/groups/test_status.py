"""``fair partitions status`` and ``create``, and a worker whose settings do not fit its group."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from celery import Celery
from click.testing import CliRunner, Result

from celery_fair import install
from celery_fair.cli import fair
from celery_fair.core.groups.assignment import partition_of
from tests.brokers import Space
from tests.groups.fleet import STEADY, Fleet, check_one_by_one
from tests.groups.stores import LASTING, store_url
from tests.integration.gate import closing_gate
from tests.ports import free_port
from tests.publishing import publish
from tests.waiting import wait_for
from tests.workers import StartWorker


def asked(conf: dict[str, Any], *words: str) -> Result:
    app = Celery("asking", broker=conf.get("broker_url", "memory://"), set_as_current=False)
    app.conf.update(conf)
    app.conf.task_ignore_result = True
    install(app)
    obj = SimpleNamespace(app=app)
    return CliRunner().invoke(fair, ["partitions", *words], obj=obj)


def status(conf: dict[str, Any], *words: str) -> Result:
    return asked(conf, "status", *words)


def test_who_owns_what(redis_space: Space, start_worker: StartWorker, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/g.db"
    fleet = Fleet(redis_space, start_worker, tmp_path, store, 12, lease=STEADY)
    nobody = status(fleet.conf)
    assert (nobody.exit_code, nobody.stdout) == (1, "no worker has joined a group yet\n")
    worker = fleet.worker()
    fleet.wait_counts([12], worker)
    found = status(fleet.conf, "--json")
    assert found.exit_code == 0, found.output
    rows = json.loads(found.stdout)
    assert [row["partition"] for row in rows] == [f"customers.{n}" for n in range(12)]
    assert all(row["owner"].startswith(f"{worker.hostname}:") for row in rows)
    assert {(row["group"], row["next"]) for row in rows} == {("customers", None)}
    assert {(row["waiting"], row["removed"]) for row in rows} == {(0, False)}
    assert all(row["token"] > 0 for row in rows)
    shown = status(fleet.conf).stdout.splitlines()
    assert shown[0].split() == [
        *("partition", "group", "owner", "next", "token", "since", "waiting")
    ]
    assert len(shown) == 13

    change = {"queue": "customers.0", "options": {"max_in_flight": 2}}
    wait_for(
        lambda: "runs one task at a time" in worker.control("fair_set", **change)["error"],
        20,
        lambda: str(worker.control("fair_set", **change)),
    )

    other = fleet.worker(fair_partitions={"customers": {"partitions": 8}})
    differ = "has 12 partitions (customers.0 to customers.11), and fair_partitions 8 (customers.0 "
    (said,) = wait_for(lambda: fleet.of("failed"), 20, other.log)
    assert (said["exception"], said["worker"]) == ("PartitionsDifferError", other.hostname)
    assert differ in said["text"]
    assert said["text"] in said["message"]
    assert said["message"] in other.log()
    assert fleet.owned(other) == {other.hostname: set()}
    assert other.stop() == 0
    assert worker.stop() == 0
    gone = status(fleet.conf)
    assert gone.exit_code == 1
    assert gone.stdout.splitlines()[1].split()[:4] == ["customers.0", "customers", "–", "–"]


def test_taking_out_and_putting_back(
    space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    """From a worker that is at work on the partition, and has more of it waiting."""
    store = f"sqlite:///{tmp_path}/g.db"
    fleet = Fleet(space, start_worker, tmp_path, store, 2, lease=STEADY)
    conf = fleet.conf | {"broker_url": space.url}
    stays, goes = "g", "a"
    assert [partition_of(key, 2) for key in (stays, goes)] == [0, 1]
    fleet.publish([stays, goes], 1)
    worker = fleet.worker()
    fleet.wait_counts([2], worker)
    fleet.records.finished.wait(2)

    def row() -> Any:
        found = status(conf, "--json")
        assert found.exit_code == 0, found.output
        return json.loads(found.stdout)[1]

    with closing_gate() as gate:
        fleet.send(goes, 1, "keyed", gate=str(gate.path))
        wait_for(lambda: len(fleet.of("began")) == 3, 20, lambda: str(fleet.events))
        for number in range(2, 5):
            fleet.send(goes, number, "keyed")
        out = asked(conf, "remove", "customers.1")
        assert (out.exit_code, out.stdout.split(":")[0]) == (0, "customers.1")
        fleet.wait_counts([1], worker)
        for number in range(1, 4):
            fleet.send(stays, number, "keyed")
        fleet.records.finished.wait(5)
        running = row()
        assert running["removed"] is True
        assert running["owner"].startswith(f"{worker.hostname}:")

    def given_up() -> Any:
        found = row()  # what is given back is counted by the broker a moment later
        return found if (found["owner"], found["waiting"]) == (None, 3) else None

    removed = wait_for(given_up, 30, lambda: str(row()))
    assert removed["removed"] is True
    assert removed["token"] == running["token"]
    shown = status(conf).stdout.splitlines()[2].split()
    assert (shown[3:5], shown[-1]) == (["removed", str(removed["token"])], "3")

    assert asked(conf, "add", "customers.1").stdout == "customers.1: added\n"
    fleet.records.finished.wait(9)
    fleet.wait_counts([2], worker)
    assert asked(conf, "rebalance").stdout == "customers: workers make a new plan\n"
    assert worker.stop() == 0
    both, second = {"customers.0", "customers.1"}, {"customers.1"}
    assert fleet.told() == [
        ("assigned", both),
        *(("revoked", second), ("assigned", second)),
        ("revoked", both),
    ]
    check_one_by_one(fleet, {stays: [*range(4)], goes: [*range(5)]})
    tokens = [event["token"] for event in fleet.of("began") if event["key"] == goes]
    assert tokens == 2 * [removed["token"]] + 3 * [tokens[-1]]
    assert tokens[-1] > removed["token"]


def test_what_cannot_be_changed() -> None:
    away = f"redis://127.0.0.1:{free_port()}/0"
    conf = {"fair_partitions": {"c": {"partitions": 2}}, "fair_group_store": away}
    unknown = asked(conf, "remove", "c.2")
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    assert "there is no partition 'c.2'; by fair_partitions there are: c.0 to c.1" in unknown.stderr
    group = asked(conf, "rebalance", "d")
    assert group.exit_code == 2
    assert "there is no group 'd'; there are: c" in group.stderr
    failed = asked(conf, "add", "c.1")
    assert failed.exit_code == 1
    assert "nothing was changed: " in failed.stderr


def test_what_is_so_already_is_said(tmp_path: Path) -> None:
    """Also before anybody has joined."""
    conf = {
        "fair_partitions": {"c": {"partitions": 12}, "d": {"partitions": 1}},
        "fair_group_store": f"sqlite:///{tmp_path}/g.db",
    }

    def said(*words: str) -> list[str]:
        done = asked(conf, *words)
        assert done.exit_code == 0, done.output
        return done.stdout.splitlines()

    is_not = "is not removed; nothing was changed"
    gone = "removed; what runs there ends, then nothing begins any more"
    assert said("add", "c.1") == [f"c.1: {is_not}"]
    assert said("remove", "c.10", "c.2") == [f"c.2, c.10: {gone}"]
    assert said("remove", "c.2", "d.0", "c.10", "c.2") == [
        f"d.0: {gone}",
        "c.2, c.10: was removed before; nothing was changed",
    ]
    assert said("add", "c.1", "c.2") == ["c.2: added", f"c.1: {is_not}"]


def test_store_that_is_away() -> None:
    conf = {"fair_partitions": {"c": {"partitions": 2}}}
    assert "the app has no groups" in status(conf).stderr
    away = status(conf | {"fair_group_store": f"redis://127.0.0.1:{free_port()}/0"})
    assert away.exit_code == 1
    assert "the groups of fair_group_store cannot be read: " in away.stderr


@pytest.mark.parametrize("kind", LASTING)
def test_what_a_store_needs_is_made_once(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    for url in store_url(kind, request, tmp_path):
        conf = {"fair_partitions": {"c": {"partitions": 2}}, "fair_group_store": url}
        node = f"{urlsplit(url).path.rstrip('/')}/celery-fair/clock"
        needed = {"redis": [], "zookeeper": [node]}.get(kind, ["table celery_fair_groups"])
        for done in ("made", "is there"):
            said = [f"{name}: {done}\n" for name in needed]
            nothing = "nothing to do: a store of this kind needs nothing made beforehand\n"
            made = asked(conf, "create")
            assert (made.exit_code, made.stdout) == (0, "".join(said) or nothing)


def test_store_that_is_away_is_not_made(tmp_path: Path) -> None:
    conf = {"fair_partitions": {"c": {"partitions": 2}}}
    away = asked(conf | {"fair_group_store": f"sqlite:///{tmp_path}/none/g.db"}, "create")
    assert away.exit_code == 1
    assert "what fair_group_store needs cannot be made: " in away.stderr


def test_worker_without_its_store(
    redis_space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    """It says so, consumes nothing of the group, and does its other work."""
    store = f"redis://127.0.0.1:{free_port()}/0"
    fleet = Fleet(redis_space, start_worker, tmp_path, store, partitions=2, recovery=None)
    worker = fleet.worker()
    (said,) = wait_for(lambda: fleet.of("failed"), 20, worker.log)
    assert said["message"] == f"group 'customers': fair_group_store: {said['text']}"
    assert said["exception"] == "StoreUnreachableError"
    assert "connecting to 127.0.0.1" in said["text"]
    assert said["will_recover"] is False
    assert f"Cannot agree with {said['message']}" in worker.log()
    fleet.publish(["a"], 1)
    publish(redis_space.url, {"celery": 1}, "nap", (0,))
    fleet.records.finished.wait(1)
    assert worker.stop() == 0
    assert fleet.records.started.counts() == {"celery": 1}
    assert sum(redis_space.ready().values()) == 1
    assert fleet.owned(worker) == {worker.hostname: set()}
