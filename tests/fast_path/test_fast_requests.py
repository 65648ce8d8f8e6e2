"""A task sees the same request, whichever way it came."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, chain, group

from tests.brokers import Space
from tests.waiting import wait_for
from tests.workers import StartWorker

APP = "tests.fast_path.looking"

LATER = datetime.now(UTC) + timedelta(days=1)

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "arguments": {"args": [1, "ä", [None, {"a": 1.5}]], "kwargs": {"x": "y"}},
    "headers": {"headers": {"mine": "ü", "number": 5, "nested": {"a": [1, 2]}}},
    "priority": {"priority": 3},
    "limits": {"time_limit": 60, "soft_time_limit": 30},
    "ignored": {"ignore_result": True},
    "kept": {"ignore_result": False},
    "shadow": {"shadow": "another"},
    "correlated": {"correlation_id": "c-1", "reply_to": "r-1"},
    "retries": {"kwargs": {"again": True}},
    "expires": {"expires": LATER},
    "eta": {"eta": LATER - timedelta(days=2)},
    "group": {"group_id": "g-1", "group_index": 3, "root_id": "r", "parent_id": "p"},
    "argsrepr": {"args": [1], "argsrepr": "(secret)", "kwargsrepr": "{}"},
    "compressed": {"compression": "gzip", "args": ["a" * 100]},
    "replaced": {"replaced_task_nesting": 2},
    "stamped": {"headers": {"stamped_headers": ["s"], "stamps": {"s": ["1"]}, "s": ["1"]}},
    "pickled": {"serializer": "pickle", "args": [(1, 2)]},
}
TASKS = ("own_request", "own_strategy", "limited")
"""Whose tasks' ids are their names."""

SLOW = {"expires", "eta", "stamped", "pickled", *TASKS}
"""What takes Celery's way."""

LAST = {
    *(f"{name}.0" for name in (*OPTIONS, *TASKS)),
    *("retries.1", "linked.0", "link.0", "first.0", "second.0", "member1.0", "member2.0"),
}

DIFFERS = re.compile(r"'expiration': '\d+'|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\w+@[\w.-]+")
"""From one publication, client or worker to the next."""

ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\d [\d:.]+")
"""Of a task that was given none; and when it is due."""

SAID = re.compile(r"\] (received|succeeded in|retry)")
SECONDS = re.compile(r"(?<= in )[\d.e-]+(?=s)")


@pytest.fixture(params=["solo", "threads", "prefork"])
def pool(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Look:
    """Workers with an app of tasks that write down their requests."""

    def __init__(self, space: Space, start_worker: StartWorker, pool: str, folder: Path) -> None:
        self._space = space
        self._start = start_worker
        self._pool = pool
        self._folder = folder

    def requests(
        self,
        name: str,
        args: Sequence[str] = (),
        listening: str = "",
        loglevel: str = "WARNING",
        quiet: bool = True,
        **conf: Any,
    ) -> dict[str, Any]:
        """What tasks see of their requests, by id and retry."""
        self.folder = self._folder / name
        self.folder.mkdir()
        worker = self._start(
            self._space,
            app=APP,
            queues=["q"],
            pool=self._pool,
            concurrency=2,
            conf={"accept_content": ["json", "pickle"]} | conf,
            env={"LOOKING": str(self.folder), "LISTENING": listening, "C_FORCE_ROOT": "1"},
            args=args,
            loglevel=loglevel,
            quiet=quiet,
        )
        with Celery("client", broker=self._space.url, set_as_current=False) as client:
            client.conf.task_ignore_result = True
            publish(client)
        wait_for(lambda: self._names() >= LAST, 60, lambda: f"{LAST - self._names()}{worker.log()}")
        found = {name: json.loads((self.folder / name).read_text()) for name in LAST}
        worker.stop()
        self.log = worker.log()
        return found

    def said(self) -> list[str]:
        """What the worker says of its tasks, without the times."""
        said = [line.partition("] ")[2] for line in self.log.splitlines() if SAID.search(line)]
        return sorted(SECONDS.sub("-", ID.sub("-", line)) for line in said)

    def ways(self) -> dict[str, str]:
        """How each task came, by id."""
        return {path.stem: path.read_text() for path in self.folder.glob("*.way")}

    def _names(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}


@pytest.fixture
def look(space: Space, start_worker: StartWorker, pool: str, tmp_path: Path) -> Look:
    return Look(space, start_worker, pool, tmp_path)


def publish(client: Celery) -> None:
    for name, options in OPTIONS.items():
        client.send_task("look", task_id=name, queue="q", **options)
    for name in TASKS:
        client.send_task(name, task_id=name, queue="q")
    task = client.signature("look", queue="q")
    linked = {"link": task.clone(task_id="link"), "link_error": task.clone(task_id="never")}
    client.send_task("look", task_id="linked", queue="q", **linked)
    first = task.clone(args=["first"], task_id="first")
    chain(first, task.clone(args=["second"], task_id="second"), app=client).apply_async()
    members = [task.clone(task_id=f"member{number}") for number in (1, 2)]
    group(members, app=client).apply_async(task_id="members")


def alike(requests: dict[str, Any]) -> dict[str, Any]:
    """Blot out what differs from one time to the next."""
    return {
        key: {name: DIFFERS.sub("-", value) for name, value in request.items()}
        for key, request in requests.items()
    }


def test_a_task_sees_the_same_request(look: Look) -> None:
    long = look.requests("long", fair_fast_path=False)
    assert look.ways() == {}
    short = look.requests("short")
    assert alike(short) == alike(long)
    assert {name for name, way in look.ways().items() if way == "long"} == SLOW


def test_what_is_said_of_tasks_is_what_celery_says(look: Look) -> None:
    look.requests("long", loglevel="INFO", fair_fast_path=False)
    said = look.said()
    assert len(said) >= 2 * len(LAST)
    look.requests("short", loglevel="INFO")
    assert "short" in look.ways().values()
    assert look.said() == said


@pytest.mark.parametrize("pool", ["solo"])
def test_the_command_that_people_type_takes_the_fast_path(look: Look) -> None:
    """Gossip and heartbeats are events, too, but none of tasks."""
    look.requests("default", quiet=False, loglevel="INFO")
    assert {name for name, way in look.ways().items() if way == "long"} == SLOW


@pytest.mark.either_broker
@pytest.mark.parametrize("more", [{"args": ["-E"]}, {"listening": "task_received"}], ids=str)
def test_whoever_listens_the_fast_path_is_taken(look: Look, more: dict[str, Any]) -> None:
    look.requests("listening", **more)
    assert {name for name, way in look.ways().items() if way == "long"} == SLOW
