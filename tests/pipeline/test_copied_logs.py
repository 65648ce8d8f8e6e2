"""A log that a sidecar copies to a store: what arrives of a killed worker's, and what it proves.

The sidecar's script is the documentation's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.brokers import Space
from tests.brokers.missing import program
from tests.documentation.commands import ROOT
from tests.documentation.page import blocks
from tests.eventlog.reading import records
from tests.integration.gate import Gate
from tests.once.conftest import gate
from tests.pipeline import planted
from tests.pipeline.planted import Logs
from tests.processes import Process
from tests.publishing import publish
from tests.waiting import wait_for
from tests.workers import StartWorker

if TYPE_CHECKING:
    pass

__all__ = ["gate"]

ROTATE = 3.0
"""Seconds for which a file takes records: those of what is held all go into one."""


@pytest.fixture
def space(rabbitmq_space: Space) -> Space:
    return rabbitmq_space


@contextmanager
def sidecar(logs: Path, store: Path, folder: Path) -> Iterator[Process]:
    """The documented script, with pythons of this environment."""
    page = (ROOT / "docs" / "production" / "kubernetes-logs.md").read_text()
    (script,) = (block.text for block in blocks(page) if block.language == "sh")
    (folder / "copy-logs.sh").write_text(script)
    environment = os.environ | {
        "LOGS": str(logs),
        "STORE": str(store),
        "EVERY": "0.2",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "RCLONE_CONFIG": str(folder / "none.conf"),
    }
    command = ["sh", str(folder / "copy-logs.sh")]
    process = Process(command, folder / "sidecar.log", environment)
    try:
        yield process
    finally:
        process.end()


def test_killed_with_an_open_file(
    space: Space,
    start_worker: StartWorker,
    gate: Gate,
    tmp_path: Path,
) -> None:
    """What a node had that is lost is not there; after the last copy of a sidecar all of it is."""
    program("rclone", package="rclone")
    log, store = tmp_path / "log", tmp_path / "store"
    conf = {"fair_event_log": str(log), "fair_event_log_rotate": ROTATE}
    options: dict[str, Any] = {"app": "tests.apps.once", "pool": "threads", "queues": ["a"]}
    worker = start_worker(space, conf=conf, **options)

    def run(task: str = "before", *args: Any) -> str:
        published = {"x-fair-published": time.time()}
        [id_] = publish(space.url, {"a": 1}, task, [*args], headers=published).all()
        worker.records.started.wait_ids([id_])
        return id_

    with sidecar(log, store, tmp_path) as first:
        done = run()
        worker.records.finished.wait_ids([done])
        full = time.time() + ROTATE
        wait_for(lambda: time.time() > full, 30, "the file's time to be over")
        held = run("before", str(gate.path))  # its first record seals the file before
        worker.process.send(signal.SIGSTOP)
        wait_for(lambda: store.exists() and records(store, "finished"), 60, first.log)
        worker.kill()
        worker.process.end()
        first.kill()  # node and all
    gate.open()
    assert not [path for path in store.rglob("*") if path.name.startswith("_")]
    assert held not in {record["id"] for record in records(store, "started")}

    taken = next(store.glob("*/*-0.jsonl"))
    taken.unlink()  # when it is there again, the script runs
    with sidecar(log, store, tmp_path) as last:  # now it is told to end, as when a pod is
        wait_for(taken.exists, 60, last.log)
        last.send(15)
        assert last.wait(60) == 0, last.log()
    assert {done, held} <= {record["id"] for record in records(store, "started")}
    (told,) = (record for record in records(store, "process") if record["state"] == "dead")
    theirs = [record for record in records(store) if record["boot"] == told["boot"]]
    numbers = [record["seq"] for record in theirs if record is not told and "seq" in record]
    assert sorted(numbers) == list(range(told["last"] + 1))


def test_a_store_that_is_away_when_a_pod_ends(tmp_path: Path) -> None:
    """The last copy, and the one that was under way, are tried until it is back."""
    program("rclone", package="rclone")
    store = tmp_path / "store"
    store.write_text("no folder")
    worker = planted.Process().boots(0)
    Logs(tmp_path / "log").write(f"{worker.node}/{worker.boot}-0.jsonl", worker.lines)
    with sidecar(tmp_path / "log", store, tmp_path) as script:
        wait_for(lambda: "it is tried again" in script.log(), 60, script.log)
        script.send(signal.SIGTERM)
        wait_for(lambda: "sealed 0 files" in script.log(), 60, script.log)
        ended = len(script.log())
        wait_for(lambda: "it is tried again" in script.log()[ended:], 60, script.log)
        store.unlink()
        assert script.wait(60) == 0, script.log()
    assert len(records(store, "process")) == 1


@pytest.mark.wide
def test_the_job_fetches_what_comes_late(tmp_path: Path) -> None:
    """As long as the page says, and keeps it no longer."""
    program("rclone", package="rclone")
    page = (ROOT / "docs" / "production" / "kubernetes-logs.md").read_text()
    (job,) = (block.text for block in blocks(page) if "kind: CronJob" in block.text)
    spec = yaml.safe_load(job)["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (fetch,) = (each["command"] for each in spec["initContainers"])
    (clean,) = (each["args"][0].partition("&& ")[2] for each in spec["containers"])
    store, data = tmp_path / "store", tmp_path / "data"

    def placed(words: str) -> str:
        return words.replace("store:shop-logs", str(store)).replace("/data", str(data))

    for days in (0, 20, 40):
        path = store / "host" / f"{days}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
        os.utime(path, (time.time() - 86400 * days,) * 2)
    old = data / "logs" / "host" / "33.jsonl"
    old.parent.mkdir(parents=True)
    old.touch()
    os.utime(old, (time.time() - 86400 * 33,) * 2)
    environment = os.environ | {"RCLONE_CONFIG": str(tmp_path / "none.conf")}
    subprocess.run([*map(placed, fetch)], env=environment, check=True)
    assert clean.startswith("find ")
    subprocess.run(["sh", "-c", placed(clean)], check=True)
    assert {path.stem for path in old.parent.iterdir()} == {"0", "20"}
