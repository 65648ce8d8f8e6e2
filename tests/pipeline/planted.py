"""Event logs as workers would have written them, with times that are easy to reckon with."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from celery_fair.eventlog.records import FIELDS, KINDS, VERSION
from celery_fair.pipeline.warehouse import FORMAT

__all__ = ["T0", "Logs", "Process", "pretend_warehouse", "written"]

T0 = 1_700_000_000.0
"""Where the planted times begin; 2023-11-14, 22:13:20 UTC."""

MICROSECONDS = {
    name
    for fields in (FIELDS, *KINDS.values())
    for name, (kind, _) in fields.items()
    if kind == "microseconds"
}

_numbers = count(1)


@dataclass
class Process:
    """One process: what it writes, in the order of writing. Times are seconds after `T0`.

    With a `queue` it says that it consumes that; else its tasks are of `q`, and it says nothing.
    """

    node: str = "celery@a"
    pid: int = field(default_factory=lambda: next(_numbers))
    boot: str = ""
    parent: str | None = None
    queue: str = ""
    seq: int = 0
    records: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.boot = self.boot or f"b{self.pid}"

    def write(self, kind: str, at: float, **fields: Any) -> dict[str, Any]:
        """Write a record; return it."""
        record = {"kind": kind, "node": self.node, "pid": self.pid, "boot": self.boot}
        record |= {"seq": self.seq, "at": T0 + at} | fields
        self.seq += 1
        self.records.append(record)
        return record

    def boots(self, at: float, **fields: Any) -> Process:
        """Write that it has begun."""
        known: dict[str, Any] = {"heartbeat": 10.0, "concurrency": 1, "pool": "solo", "dropped": 0}
        if self.queue:
            known["quanta"] = {self.queue: 1.0}
        fields = known | fields
        parent = self.parent or self.boot
        self.write("process", at, state="boot", parent=parent, **fields)
        return self

    def beats(self, at: float, **fields: Any) -> None:
        self.write("process", at, state="heartbeat", **{"heartbeat": 10.0, "dropped": 0} | fields)

    def ends(self, at: float, state: str = "exit", **fields: Any) -> None:
        if state == "dead":
            self.dies(at, **{"last": self.seq - 1, "dropped": 0} | fields)
        else:
            self.write("process", at, state=state, **{"dropped": 0} | fields)

    def dies(self, at: float, last: int | None, **fields: Any) -> None:
        """Another one writes that it is dead, in a record without a number."""
        self.write("process", at, state="dead", last=last, **fields)["seq"] = None
        self.seq -= 1

    def starts(
        self, task_id: str, at: float, published: float | None = None, **fields: Any
    ) -> None:
        fields = {
            "retries": 0,
            "task": "t",
            "queue": self.queue or "q",
            "repeatable": False,
        } | fields
        if published is not None:
            fields["published"] = T0 + published
        self.write("started", at, id=task_id, **fields)

    def finishes(self, task_id: str, at: float, runtime: float = 1.0, **fields: Any) -> None:
        fields = {
            "retries": 0,
            "task": "t",
            "queue": self.queue or "q",
            "state": "SUCCESS",
        } | fields
        self.write("finished", at, id=task_id, runtime=runtime, **fields)

    def breaks_off(self, task_id: str, at: float) -> None:
        """Write the end of a task whose process has died."""
        lost: dict[str, Any] = {"state": "FAILURE", "exception": "WorkerLostError"}
        self.finishes(task_id, at, broken_off=True, **lost)

    def runs(self, task_id: str, at: float, runtime: float = 1.0, **fields: Any) -> None:
        """Start and finish a task."""
        self.starts(task_id, at, **fields)
        both = ("task", "queue", "retries", "cost_key")
        kept = {name: fields[name] for name in both if name in fields}
        self.finishes(task_id, at + runtime, runtime, **kept)

    def rejects(
        self, task_id: str | None, at: float, published: float | None, **fields: Any
    ) -> None:
        fields = {
            "retries": 0,
            "task": "t",
            "queue": self.queue or "q",
            "reason": "redelivered",
        } | fields
        when = None if published is None else T0 + published
        self.write("rejected", at, id=task_id, published=when, **fields)

    def says(
        self, queue: str, state: str, at: float, quantum: float | None = 1.0, **fields: Any
    ) -> None:
        """Write what state a queue is in from now on, or since a time before."""
        if "since" in fields:
            fields["since"] += T0
        self.write("queue", at, queue=queue, state=state, quantum=quantum, **fields)

    def forgets(self) -> None:
        """Lose the last record: it was counted, and is not in the file."""
        self.records.pop()

    def shift(self, seconds: float) -> None:
        """Let everything so far have happened later."""
        for record in self.records:
            for name in ("at", "since", "published", "received"):
                if record.get(name) is not None:
                    record[name] += seconds

    @property
    def lines(self) -> list[str]:
        """As a worker writes them."""
        return [json.dumps(written(record)) for record in self.records]


def pretend_warehouse(root: Path) -> None:
    """Make a folder look like a warehouse, of a table that is not there."""
    pointer = {"v": FORMAT, "version": 1, "tables": {"t": ["t"]}, "schemas": {"t": "id long"}}
    (root / "current.json").write_text(json.dumps(pointer))


def written(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record whose times are seconds in the schema of now."""
    times = {
        name: None if value is None else round(value * 1e6)
        for name, value in record.items()
        if name in MICROSECONDS
    }
    return record | {"v": VERSION} | times


class Logs:
    """A folder of them.

    Arguments:
        folder: made when the first file is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def plant(self, *processes: Process, under: str = "") -> list[Path]:
        """Write a sealed file for each process; return their paths."""
        named = [(f"{p.node}-{p.pid}-{p.boot}-0.jsonl", p.lines) for p in processes]
        return [self.write(f"{under}/{name}", lines) for name, lines in named]

    def write(self, name: str, lines: list[str], torn: str = "") -> Path:
        """Write a file of such lines, and after them one without an end."""
        path = self.folder / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines) + torn)
        return path
