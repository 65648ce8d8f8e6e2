"""Whoever looks on hears from a fair worker what they hear from Celery's, on both ways."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from tests.brokers import Space
from tests.records import Records
from tests.waiting import wait_for
from tests.workers import StartWorker, WorkerProcess

PUBLISHED: list[tuple[str, str, list[Any], dict[str, Any]]] = [
    ("first", "succeeds", [1], {"more": ["x" * 50]}),
    ("second", "succeeds", [2], {}),
    ("expected", "fails", [1], {}),
    ("unexpected", "fails", [2], {}),
    ("again", "again", [3], {}),
    ("ignored", "ignores", [], {}),
    ("wrong", "succeeds", [], {}),
    ("last", "succeeds", [9], {}),
]
IDS = [task_id for task_id, *_ in PUBLISHED]
VARIABLE = "CELERY_FAIR_TEST_INSTRUMENT"  # read in `tests.apps.instrumented`
WAYS: dict[str, dict[str, Any]] = {
    "vanilla": {"fair": False},
    "fast": {"conf": {"fair_fast_path": True}},
    "plain": {"conf": {"fair_fast_path": False}},
}
LOOKING = ("sentry", "opentelemetry", "receivers", "late", "call", "request", "handlers")
POOLS = ("threads", "prefork", "solo")
USUAL = ("sentry", "threads")
CASES = [
    pytest.param(what, pool, marks=() if (what, pool) == USUAL else pytest.mark.wide)
    for what in LOOKING
    for pool in POOLS
]
Said = dict[str, list[Any]]
SAID = {"name", "args", "kwargs", "result", "retries"}


def worked(
    space: Space,
    start_worker: StartWorker,
    folder: Path,
    what: str,
    pool: str,
    way: str,
    args: tuple[str, ...] = (),
) -> WorkerProcess:
    """A worker that has done what was published."""
    worker = start_worker(
        space,
        app="tests.apps.instrumented",
        env={VARIABLE: what},
        pool=pool,
        loglevel="INFO",
        quiet=False,
        queues=["work"],
        records=Records(folder / way),
        args=args,
        afresh=bool(what),  # who looks on may have to be there before Celery
        **WAYS[way],
    )
    for task_id, task, positional, named in PUBLISHED:
        worker.client.send_task(task, positional, named, task_id=task_id, queue="work")
    wait_for(lambda: ended(worker), 60, worker.log)
    return worker


def ended(worker: WorkerProcess) -> bool:
    return set(IDS) <= set(re.findall(r"\[(\w+)\] (?:succeeded|raised|ignored)", worker.log()))


def noted(worker: WorkerProcess) -> Said:
    """What was noted of each task; what is noted of none has another name."""
    path = Path(f"{worker.records.prefix}.noted")
    said: Said = defaultdict(list)
    text = path.read_text()
    for line in text.splitlines():
        task_id, *what = json.loads(line)
        said[task_id].append(what)
    return {task_id: sorted(each, key=repr) for task_id, each in said.items()}


def logged(worker: WorkerProcess) -> list[str]:
    """Lines of the log about tasks, without what differs in any case."""
    ids = "|".join(IDS)
    found = re.findall(rf": (?:INFO|WARNING|ERROR)/\S+\] (.*\[(?:{ids})\].*)", worker.log())
    return sorted(re.sub(r"\d+\.\d+(?:e-\d+)?s|0x[0-9a-f]+", "…", line) for line in found)


@pytest.mark.timeout(400)  # three workers that import all anew
@pytest.mark.parametrize(("what", "pool"), CASES)
def test_whoever_looks_on_sees_the_same(
    rabbitmq_space: Space, start_worker: StartWorker, tmp_path: Path, what: str, pool: str
) -> None:
    said = {}
    for way in WAYS:
        worker = worked(rabbitmq_space, start_worker, tmp_path, what, pool, way)
        assert worker.stop() == 0
        said[way] = noted(worker), logged(worker)
    assert set(IDS) - {"first"} <= set(said["vanilla"][0])
    assert len(said["vanilla"][1]) >= 2 * len(IDS)
    assert said["fast"] == said["vanilla"]
    assert said["plain"] == said["vanilla"]


def heard(space: Space, start_worker: StartWorker, folder: Path, pool: str, way: str) -> list[Any]:
    """The events of tasks that a monitor hears, by task, each with the names of its fields."""
    events: list[Any] = []
    app = Celery("monitor", broker=space.url, set_as_current=False)
    with app, app.connection_for_read() as connection:

        def hear(event: dict[str, Any]) -> None:
            if event["type"].startswith("task-"):
                kept = {name: event[name] for name in SAID & event.keys()}
                events.append((event["uuid"], event["type"], sorted(event), sorted(kept.items())))

        receiver = app.events.Receiver(connection, handlers={"*": hear})
        with receiver.consumer_context() as (open_connection, _, _):
            worker = worked(space, start_worker, folder, "", pool, way, args=("-E",))

            def all_heard() -> bool:
                with suppress(TimeoutError):
                    open_connection.drain_events(timeout=0.1)
                # What is tried again may end after the last.
                return {"again", IDS[-1]} <= {
                    task_id for task_id, type_, *_ in events if type_ == "task-succeeded"
                }

            wait_for(all_heard, 60, lambda: f"the last events ({way}), not {events}")
            assert worker.stop() == 0
    return sorted(events, key=repr)


@pytest.mark.wide
@pytest.mark.newest  # before, Celery loses some of them now and then where there are threads
@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_monitor_hears_the_same(
    rabbitmq_space: Space, start_worker: StartWorker, tmp_path: Path, pool: str
) -> None:
    found = {way: heard(rabbitmq_space, start_worker, tmp_path, pool, way) for way in WAYS}
    of_each = Counter(task_id for task_id, *_ in found["plain"])
    assert of_each == dict.fromkeys(IDS, 3) | {"again": 6, "ignored": 2}
    assert all(events == found["plain"] for events in found.values())
