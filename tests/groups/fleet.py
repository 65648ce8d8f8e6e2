"""Workers of one group, what they were told, and messages with keys for them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from celery import Celery

from celery_fair import install
from tests.apps.fenced import Fenced
from tests.brokers import Space
from tests.records import Records
from tests.waiting import wait_for
from tests.workers import StartWorker, WorkerProcess

LEASE = {"lease": 4, "recovery": 1}
STEADY = 30
"""Seconds of a lease that no worker is to lose, though it stands still for a while."""
QUEUE = "customers"
APP = "tests.apps.partitioned"


class Fleet:
    """See the module.

    Arguments:
        store: URL of the group's store.
        via: see ``fair_partitions``.
        options: of ``fair_group_…``, in place of `LEASE`.
    """

    def __init__(
        self,
        space: Space,
        start: StartWorker,
        folder: Path,
        store: str,
        partitions: int = 6,
        pool: str = "threads",
        via: str = "hash",
        **options: Any,
    ) -> None:
        self.records = Records(folder / "tasks")
        self.database = Fenced(folder / "tasks.db")
        self.database.create()
        self.conf: dict[str, Any] = {
            "fair_partitions": {QUEUE: {"partitions": partitions, "via": via}},
            "fair_group_store": store,
        } | {f"fair_group_{name}": value for name, value in (LEASE | options).items()}
        self._space, self._start, self._pool = space, start, pool
        self._events: list[dict[str, Any]] = []
        self._read = 0

    def worker(
        self, broker: str = "", wait: bool = True, app: str = APP, **conf: Any
    ) -> WorkerProcess:
        """Start one more; at another URL of the broker, if there is one."""
        return self._start(
            broker or self._space,
            app=app,
            pool=self._pool,
            concurrency=4,
            conf=self.conf | conf,
            records=self.records,
            loglevel="INFO",
            wait=wait,
        )

    @property
    def events(self) -> list[dict[str, Any]]:
        """What tasks and signals have said, in order."""
        path = Path(f"{self.records.prefix}.events")
        if path.exists():
            with path.open("rb") as file:
                file.seek(self._read)
                new = file.read()
            new = new[: new.rfind(b"\n") + 1]
            self._read += len(new)
            self._events += map(json.loads, new.splitlines())
        return list(self._events)

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The events of one kind."""
        return [event for event in self.events if event["kind"] == kind]

    def told(self) -> list[tuple[str, set[str]]]:
        """What was said of partitions, in order."""
        return [
            (event["kind"], set(event["partitions"]))
            for event in self.events
            if event["kind"] in {"assigned", "revoked"}
        ]

    def owned(self, *workers: WorkerProcess) -> dict[str, set[str]]:
        """By worker, what it was assigned and has not been revoked."""
        owned: dict[str, set[str]] = {worker.hostname: set() for worker in workers}
        for event in self.events:
            mine = owned.get(event.get("worker", ""), set())
            if event["kind"] == "assigned":
                mine.update(event["partitions"])
            elif event["kind"] == "revoked":
                mine.difference_update(event["partitions"])
        return owned

    def counts(self, *workers: WorkerProcess) -> list[int]:
        return sorted(map(len, self.owned(*workers).values()))

    def wait_counts(self, expected: Sequence[int], *workers: WorkerProcess) -> None:
        """Wait until the workers own so many, and no partition twice."""

        def agreed() -> bool:
            every = Counter(p for own in self.owned(*workers).values() for p in own)
            return self.counts(*workers) == sorted(expected) and all(
                count == 1 for count in every.values()
            )

        wait_for(agreed, 30, lambda: f"{expected}, not {self.owned(*workers)}: {self.events}")

    @cached_property
    def _app(self) -> Celery:
        app = Celery("publisher", broker=self._space.url, set_as_current=False)
        app.conf.update(self.conf)
        app.conf.task_ignore_result = True
        return install(app)

    def publish(self, keys: Sequence[str], each: int, task: str = "keyed", **kwargs: Any) -> int:
        """Publish so many messages of each key, in turns, numbered from 0; return how many."""
        for number in range(each):
            for key in keys:
                self.send(key, number, task, **kwargs)
        return each * len(keys)

    def send(
        self, key: str, number: int, task: str, countdown: float | None = None, **kwargs: Any
    ) -> None:
        args = (number, key, number)
        self._app.send_task(task, args, kwargs, queue=QUEUE, partition_key=key, countdown=countdown)


def check_one_by_one(fleet: Fleet, expected: dict[str, list[int]]) -> None:
    """Each key's messages began one after another, and none before the one before had ended."""
    assert all(event["by"] == event["key"] for event in fleet.of("began"))
    for key, numbers in expected.items():
        said = [(e["kind"], e["number"]) for e in fleet.events if e.get("key") == key]
        assert said == [(kind, n) for n in numbers for kind in ("began", "ended")]


def check_told(fleet: Fleet, gone: Collection[str] = ()) -> None:
    """Never two owners: what is assigned was revoked before, unless its owner's lease ran out.

    Arguments:
        gone: workers that could not say that it did.
    """
    owners: dict[str, str] = {}
    tokens: dict[str, int] = {}
    for event in fleet.events:
        worker = event.get("worker", "")
        if event["kind"] == "assigned":
            for partition, token in event["partitions"].items():
                owner = owners.get(partition)
                assert owner is None or owner in gone, f"{event}, but {partition} is {owner}'s"
                assert token > tokens.get(partition, 0), f"{event} after {tokens}"
                owners[partition], tokens[partition] = worker, token
        elif event["kind"] == "revoked":
            for partition in event["partitions"]:
                if worker not in gone:
                    assert owners.pop(partition) == worker, event
                elif owners.get(partition) == worker:
                    del owners[partition]
