"""What must not start twice does not start unrecorded: its message waits for the log."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import Space
from tests.eventlog.reading import records
from tests.publishing import publish
from tests.waiting import wait_for
from tests.workers import StartWorker, WorkerProcess

APP = "tests.apps.once"
SAID = "cannot be written: until it can, non-repeatable tasks are not started"


class Disk:
    """A small one of its own, where this process may have one; else a folder that goes away."""

    def __init__(self, folder: Path, mounted: bool) -> None:
        self.folder = folder
        self._mounted = mounted
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Let nothing be written any more."""
        if not self._mounted:
            self.folder.rename(self.folder.with_name("aside"))
            self.folder.write_text("no folder")
            return
        with self._ballast.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return

    def free(self) -> None:
        """Let it be written again."""
        if self._mounted:
            self._ballast.unlink()
        else:
            self.folder.unlink()
            self.folder.with_name("aside").rename(self.folder)


@contextmanager
def disk(folder: Path, full: bool) -> Iterator[Disk]:
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    mounted = full and not os.getuid() and subprocess.run(mount, check=False).returncode == 0
    try:
        yield Disk(folder, mounted)
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def start(start_worker: StartWorker, space: Space, log: Path, **more: Any) -> WorkerProcess:
    # Each record goes into a new file: what is left of a page takes none.
    conf = {"fair_event_log": str(log), "fair_event_log_rotate": 1e-6, "fair_queues": {"a": {}}}
    return start_worker(space, app=APP, queues=["a"], conf=conf | more.pop("conf", {}), **more)


@pytest.mark.parametrize(
    ("pool", "full"), [("solo", True), ("threads", False), ("prefork", True)], ids=str
)
def test_nothing_starts_unrecorded(
    rabbitmq_space: Space, start_worker: StartWorker, tmp_path: Path, pool: str, full: bool
) -> None:
    """Ordinary tasks of the same queue go on, and the rest when there is room again."""
    space = rabbitmq_space
    with disk(tmp_path / "log", full) as place:
        slots = 1 if pool == "solo" else 2
        worker = start(start_worker, space, place.folder, pool=pool, concurrency=slots)
        worker.records.finished.wait_once(publish(space.url, {"a": 1}, "before").all())
        place.fill()
        held = [*publish(space.url, {"a": 4}, "before").all()]
        held += publish(space.url, {"a": 4}, "after").all()
        plain = publish(space.url, {"a": 4}, "plain").all()
        worker.records.finished.wait_ids(plain)
        wait_for(lambda: SAID in worker.log(), 30, worker.log)
        assert set(held).isdisjoint(r.id for r in worker.records.started.read())
        place.free()
        worker.records.finished.wait_ids(held)
        assert worker.stop() == 0
        assert worker.log().count(SAID) == 1
        assert "can be written again" in worker.log()
        begun = [r.id for r in worker.records.started.read()]
        assert sorted(begun) == sorted(set(begun))
        admitted = [r["id"] for r in records(place.folder, "admitted")]
        assert set(held) <= set(admitted)


@pytest.mark.either_broker
def test_what_waited_is_as_new_to_another_worker(
    space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    """The worker stops while it cannot write: no message counts as redelivered."""
    with disk(tmp_path / "log", True) as place:
        worker = start(start_worker, space, place.folder)
        place.fill()
        held = publish(space.url, {"a": 3}, "before").all()
        wait_for(lambda: SAID in worker.log(), 30, worker.log)
        assert worker.stop() == 0
        assert not worker.records.started.read()
        other = start(start_worker, space, tmp_path / "elsewhere")
        other.records.finished.wait_once(held)
        assert other.stop() == 0
        assert not records(tmp_path / "elsewhere", "rejected")


def test_it_need_not_be_recorded(space: Space, start_worker: StartWorker, tmp_path: Path) -> None:
    with disk(tmp_path / "log", True) as place:
        conf = {"fair_event_log_required": False}
        worker = start(start_worker, space, place.folder, conf=conf)
        place.fill()
        worker.records.finished.wait_once(publish(space.url, {"a": 3}, "before").all())
        assert worker.stop() == 0
        assert SAID not in worker.log()
