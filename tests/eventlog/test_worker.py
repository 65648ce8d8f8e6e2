"""What real workers write down: every start before the work, every end after it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from celery_fair.eventlog.records import FIELDS, KINDS
from celery_fair.worker.observe.recorder import Recorder
from tests.brokers import Space
from tests.eventlog.reading import processes, records, states
from tests.integration.conftest import gate
from tests.integration.gate import Gate
from tests.integration.malformed import Garbage
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker

pytestmark = pytest.mark.either_broker

__all__ = ["gate"]

QUANTA = {"a": {"quantum": 3}, "b": {"quantum": 1}}
APP = "tests.apps.once"
TYPES = {
    "string": str,
    "long": int,
    "microseconds": int,
    "double": (int, float),
    "boolean": bool,
    "map<string,double>": dict,
}


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    return {"fair_event_log": str(folder), "fair_queues": QUANTA} | more


def check_schema(folder: Path) -> None:
    for record in records(folder):
        known = FIELDS | KINDS[record["kind"]]
        assert set(record) <= set(known)
        for name, value in record.items():
            type_ = known[name][0]
            assert value is None or isinstance(value, TYPES[type_]), (name, value)


@pytest.mark.parametrize("pool", ["solo", "threads", "prefork", "gevent", "eventlet"])
def test_all_that_happens(
    space: Space, start_worker: StartWorker, tmp_path: Path, pool: str
) -> None:
    log = tmp_path / "log"
    before = time.time()
    options = {"app": APP, "queues": list(QUANTA), "conf": settings(log)}
    worker = start_worker(space, pool=pool, concurrency=1 if pool == "solo" else 2, **options)
    stamp = {"x-fair-published": before}
    keyed = stamp | {"x-fair-key": "acme/42"}
    plain = publish(space.url, {"a": 6, "b": 6}, "plain", headers=keyed).all()
    once = publish(space.url, {"a": 6, "b": 6}, "before", headers=stamp).all()
    unknown = publish(space.url, {"a": 1}, "nosuchtask", headers=keyed).all()
    worker.records.finished.wait_once([*plain, *once])
    wait_equal(lambda: [r["id"] for r in records(log, "rejected")], unknown)
    assert worker.stop() == 0

    check_schema(log)
    assert not list(log.rglob("_*"))
    started, finished = (
        {r["id"]: r for r in records(log, kind)} for kind in ("started", "finished")
    )
    truth = {r.id: r for r in worker.records.started.read()}
    assert set(started) == set(finished) == set(truth) == {*plain, *once}
    assert len(records(log, "started")) == len(records(log, "finished")) == len(truth)
    for id_, start in started.items():
        assert start["at"] <= truth[id_].wall * 1e6 <= finished[id_]["at"] + 1
        assert start["pid"] == truth[id_].pid
        assert start["repeatable"] == (id_ in plain)
        assert start.get("key") == ("acme/42" if id_ in plain else None)
        assert start["published"] == round(before * 1e6) <= start["received"] <= start["at"]
        assert (start["queue"], start["cost"], start["redelivered"]) == (truth[id_].queue, 1, False)
        assert finished[id_]["state"] == "SUCCESS"
        assert 0 <= finished[id_]["runtime"] <= finished[id_]["at"] - start["at"] + 1000
    (letter,) = records(log, "rejected")
    assert (letter["reason"], letter["may_have_started"]) == ("unknown-task", False)
    assert (letter["queue"], letter["task"]) == ("a", "nosuchtask")
    assert letter["key"] == "acme/42"
    for process, found in processes(log).items():
        numbers = [record["seq"] for record in found if record.get("state") != "dead"]
        assert numbers == list(range(len(numbers))), process
    assert all(s[0] == "boot" and s[-1] == "exit" for s in states(log).values())
    lives = [r for r in records(log, "process") if r["state"] != "child"]
    assert {r.get("pool") for r in lives} == {pool.removesuffix("s")}
    named = {r["child"] for r in records(log, "process") if r["state"] == "child"}
    assert named == ({r["pid"] for r in started.values()} if pool == "prefork" else set())
    admitted = {r["id"]: r for r in records(log, "admitted")}
    assert admitted.keys() == set(once)
    assert all(r["at"] <= started[id_]["at"] for id_, r in admitted.items())
    assert {r["pid"] for r in admitted.values()} == {worker.pid}
    assert len(states(log)) == (3 if pool == "prefork" else 1)
    assert {r["parent"] for r in records(log, "process")} == {
        boot for _, pid, boot in states(log) if pid == worker.pid
    }


HOSTILE = ['0,"kind":"x"', '0}\n{"kind":"x"', "7", "", [1], {"a": 1}, True, 1.5, 10**30]


def test_hostile_headers_put_nothing_into_a_record(
    space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    worker = start_worker(space, app=APP, queues=["a"], conf=settings(log))
    # AMQP has numbers of 64 bits.
    hostile = [value for value in HOSTILE if value != 10**30 or space.kind == "redis"]
    headers = [{"retries": value, "x-fair-key": value} for value in [*hostile, 7]]
    sent = [publish(space.url, {"a": 1}, "plain", headers=each).all()[0] for each in headers]
    worker.records.finished.wait_once(sent)
    assert worker.stop() == 0
    check_schema(log)
    for kind in ("started", "finished"):
        assert [r["id"] for r in records(log, kind)] == sent
        assert [r["retries"] for r in records(log, kind)] == [0] * len(hostile) + [7]
    named = [value if isinstance(value, str) and value else None for value in hostile]
    assert [r.get("key") for r in records(log, "started")] == [*named, "7"]


def test_a_start_is_there_before_the_work(
    space: Space, start_worker: StartWorker, gate: Gate, tmp_path: Path
) -> None:
    """And a worker that is killed leaves it, with a word of the next worker that it is gone."""
    log = tmp_path / "log"
    pool = {"app": APP, "pool": "prefork", "concurrency": 2, "queues": ["a"]}
    worker = start_worker(space, conf=settings(log), **pool)
    held = publish(space.url, {"a": 2}, "before", [str(gate.path)]).all()
    worker.records.started.wait_ids(held)
    assert sorted(r["id"] for r in records(log, "started")) == sorted(held)
    children = [child.pid for child in psutil.Process(worker.pid).children()]
    worker.kill()
    worker.process.end()
    gate.open()

    other = start_worker(space, conf=settings(log), **pool)

    wait_for(lambda: len(dead(log)) == 1 + len(children), 30, lambda: f"{states(log)}")
    assert dead(log) == {worker.pid, *children}
    assert {r["id"] for r in records(log, "finished")}.isdisjoint(held)
    assert other.stop() == 0
    for process, found in processes(log).items():
        numbers = [record["seq"] for record in found if record.get("state") != "dead"]
        assert numbers == list(range(len(numbers))), process


def dead(log: Path) -> set[int]:
    return {pid for (_, pid, _), life in states(log).items() if life[-1] == "dead"}


def test_a_child_that_is_killed_is_dead(
    space: Space, start_worker: StartWorker, gate: Gate, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    worker = start_worker(
        space, app=APP, pool="prefork", concurrency=1, queues=["a"], conf=settings(log)
    )
    held = publish(space.url, {"a": 1}, "before", [str(gate.path)]).all()
    (start,) = worker.records.started.wait_ids(held)
    os.kill(worker.records.started.read()[0].pid, 9)
    gate.open()
    after = publish(space.url, {"a": 1}, "before").all()
    worker.records.finished.wait_once(after)
    assert start


def test_a_child_that_has_the_number_of_one_before_is_told_again() -> None:
    """Each heartbeat forgets those that have ended."""
    told: list[int] = []
    log = SimpleNamespace(parent="b", record=lambda _, fields: told.append(fields["child"]))
    processes = [SimpleNamespace(pid=2), SimpleNamespace(pid=3)]
    consumer = SimpleNamespace(pool=SimpleNamespace(_pool=SimpleNamespace(_pool=processes)))
    of = SimpleNamespace(log=log, _c=consumer, _children=set(), _life=lambda state: None)
    recorder = cast("Recorder", of)
    for _ in range(2):
        for pid in (1, 2, 3):
            Recorder.accepted(recorder, pid)
        Recorder._live(recorder)
    assert told == [1, 2, 3, 1]


def test_what_is_no_message_is_rejected(
    redis_space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    worker = start_worker(redis_space, app=APP, queues=["a"], conf=settings(log))
    for raw in (b"garbage", b"\x00\xff\xfe", b"[]"):
        Garbage(raw).publish(redis_space, "a")
    sent = publish(redis_space.url, {"a": 1}, "plain").all()
    worker.records.finished.wait_once(sent)
    wait_equal(lambda: len(records(log, "rejected")), 3)
    assert worker.stop() == 0
    check_schema(log)
    for record in records(log, "rejected"):
        assert (record["queue"], record["reason"]) == ("a", "malformed")
        assert (record["id"], record["task"], record["published"]) == (None, None, None)
        assert record["may_have_started"] is False


def test_states_of_queues(
    space: Space, start_worker: StartWorker, gate: Gate, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    quanta = QUANTA | {"a": {"quantum": 3, "max_in_flight": 1}}
    worker = start_worker(
        space,
        app=APP,
        pool="threads",
        concurrency=2,
        queues=list(QUANTA),
        conf=settings(log, fair_queues=quanta),
    )
    publish(space.url, {"a": 5}, "plain", [str(gate.path)])

    def told(queue: str) -> list[str]:
        return [r["state"] for r in records(log, "queue") if r["queue"] == queue]

    wait_equal(lambda: told("a")[-1:], ["throttled"], timeout=30)
    wait_equal(lambda: told("b")[-1:], ["empty"], timeout=30)
    publish(space.url, {"b": 5}, "plain", [str(gate.path)])
    wait_equal(lambda: told("b")[-1:], ["ready"], timeout=30)
    gate.open()
    wait_equal(lambda: (told("a")[-1], told("b")[-1]), ("empty", "empty"), timeout=30)
    assert worker.stop() == 0
    assert (told("a")[-1], told("b")[-1]) == ("unassigned", "unassigned")
    shared = {r["queue"]: (r["costs"], r["quantum"], r["cap"]) for r in records(log, "settings")}
    assert shared == {"a": ("one", 3, 1), "b": ("one", 1, None)}
    assert len(records(log, "settings")) == 2
    ahead = {r["queue"]: r["ahead"] for r in records(log, "settings")}
    is_sent_ahead = space.url.startswith("amqp")  # eight in all, by the quanta
    assert ahead == ({"a": 6, "b": 2} if is_sent_ahead else {"a": None, "b": None})


def test_a_folder_that_cannot_be_written(
    space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    """The worker does not start."""
    (tmp_path / "file").write_text("not a folder")
    conf = settings(tmp_path / "file" / "log")
    worker = start_worker(space, wait=False, app=APP, queues=["a"], conf=conf)
    assert worker.wait() == 2
    assert "Error: fair_event_log = " in worker.log()
    assert "this worker cannot write there" in worker.log()
    assert "Traceback" not in worker.log()


def test_a_disk_that_takes_nothing(space: Space, start_worker: StartWorker, tmp_path: Path) -> None:
    """From some time on; where that is wanted the tasks run all the same, and the loss is said."""
    log, folder, file = tmp_path / "log", tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    log.symlink_to(folder)
    file.write_text("not a folder")
    conf = settings(log) | {"fair_event_log_rotate": 0.01, "fair_event_log_required": False}
    worker = start_worker(space, app=APP, queues=["a"], conf=conf)
    file.replace(log)
    worker.records.finished.wait_once(publish(space.url, {"a": 50}, "before").all())
    wait_for(lambda: "tasks go on" in worker.log(), 30, worker.log)
    assert worker.log().count("Cannot write the event log") < 50  # not once a task
    assert worker.stop() == 0
