"""What a run reads, and what it leaves behind, when others publish or it is cut short. No Spark."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from celery_fair.pipeline import ingest as ingesting
from celery_fair.pipeline import publish
from celery_fair.pipeline.errors import OvertakenError, PipelineError
from celery_fair.pipeline.ingest import Ingested
from celery_fair.pipeline.storage.pointer import Pointer, read_pointer, write_pointer
from celery_fair.pipeline.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Table:
    """Stands for a DataFrame: it only knows the folders that it is of."""

    def __init__(self, folders: Sequence[str]) -> None:
        self.folders = list(folders)
        self.schema = "id string"
        self.columns: list[str] = []
        self.write = self

    def drop(self, _name: str) -> Table:
        return self

    def parquet(self, path: str) -> None:
        Path(path.removeprefix("file:")).mkdir(parents=True)


class Folders(Warehouse):
    """A warehouse whose tables are not read."""

    def __init__(self, root: Path) -> None:
        super().__init__(cast("SparkSession", None), root)

    def read(self, folders: Sequence[str], schema: Any) -> DataFrame:
        return cast("DataFrame", Table(folders))


def version(root: Path, number: int) -> None:
    """Publish a version with tables of its own."""
    names = ("attempts", "processes", "gaps", "unread")
    tables = {name: [f"{name}/run={number:06d}-abcdef"] for name in names}
    for (folder,) in tables.values():
        (root / folder).mkdir(parents=True)
    pointer = Pointer(number, tables, dict.fromkeys(tables, "id string"))
    write_pointer(root, read_pointer(root), pointer)


def test_a_run_reads_one_version(tmp_path: Path) -> None:
    """Of two, starts could be missing while the logs that have them are complete."""
    version(tmp_path, 1)
    with Folders(tmp_path).publishing() as run:
        run.table("attempts")
        version(tmp_path, 2)
        found = cast("Table", run.table("processes"))
        assert found.folders == ["processes/run=000001-abcdef"]
        run.replace("audit", cast("DataFrame", Table([])))
    present = read_pointer(tmp_path)
    assert (present.version, run.pointer.version) == (3, 3)
    assert present.tables["attempts"] == ["attempts/run=000002-abcdef"]
    assert (tmp_path / present.tables["audit"][0]).is_dir()


@pytest.mark.wide
def test_gold_is_made_of_one_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ingest that ends while the audit begins does not mix with what was there before."""
    version(tmp_path, 1)

    def doubts(processes: Table, gaps: Table, unread: Table, unreadable: None) -> Table:
        version(tmp_path, 2)
        return processes

    def audit(attempts: Table, processes: Table, doubts: Table, since: None, within: None) -> Table:
        assert [attempts.folders, processes.folders] == [
            [f"{name}/run=000001-abcdef"] for name in ("attempts", "processes")
        ]
        return attempts

    monkeypatch.setattr(publish, "doubts", doubts)
    monkeypatch.setattr(publish, "audit", audit)

    def replayable(audit: Table) -> Table:
        return audit

    monkeypatch.setattr(publish, "replayable", replayable)
    monkeypatch.setattr(publish, "changes", lambda before, audit: audit)
    publish.write_audit(Folders(tmp_path), None, lambda _: None)
    assert read_pointer(tmp_path).version == 3


def test_a_report_reads_one_version_though_many_are_published(tmp_path: Path) -> None:
    """And nobody removes under it what it reads; when it has ended, it is removed."""
    version(tmp_path, 1)
    (first,) = read_pointer(tmp_path).tables["attempts"]
    pinned = Folders(tmp_path).pin()
    for number in range(3):
        ingest = Folders(tmp_path).begin()
        ingest.replace("attempts", cast("DataFrame", Table([])))
        ingest.publish()
        ingest.release()
        with pinned.publishing() as run:
            assert cast("Table", run.table("attempts")).folders == [first]
            made = cast("Table", run.replace(f"gold{number}", cast("DataFrame", Table([]))))
        assert (tmp_path / first).is_dir()
        assert all((tmp_path / folder).is_dir() for folder in made.folders)
    for number in range(3):
        assert pinned.table(f"gold{number}")
    assert len(list(tmp_path.glob("attempts/run=*"))) == 2  # the last one, and that

    del pinned, run
    gc.collect()
    with Folders(tmp_path).publishing() as run:
        run.replace("waits", cast("DataFrame", Table([])))
    assert not (tmp_path / first).exists()
    assert not list(tmp_path.glob(".held-*"))


@pytest.mark.wide
def test_of_two_reports_both_can_be_read(tmp_path: Path) -> None:
    """Others see what the first has made, which is of the same version or a newer one."""
    version(tmp_path, 1)
    slow, fast = Folders(tmp_path).pin(), Folders(tmp_path).pin()
    with slow.publishing() as run:
        mine = cast("Table", run.replace("waits", cast("DataFrame", Table([]))))
        with fast.publishing() as other:
            theirs = cast("Table", other.replace("waits", cast("DataFrame", Table([]))))
    assert read_pointer(tmp_path).tables["waits"] == theirs.folders
    for _ in range(3):
        version(tmp_path, read_pointer(tmp_path).version + 1)
        with fast.publishing() as other:
            other.replace("costs", cast("DataFrame", Table([])))
    assert cast("Table", slow.table("waits")).folders == mine.folders
    assert all((tmp_path / folder).is_dir() for folder in mine.folders)


def test_a_slow_run_is_not_cleared_away_under_its_hands(tmp_path: Path) -> None:
    version(tmp_path, 1)
    slow = Folders(tmp_path).begin()
    slow.replace("events", cast("DataFrame", Table([])))
    scratch = slow.scratch("open")
    (tmp_path / scratch).mkdir()
    for _ in range(3):
        with Folders(tmp_path).publishing() as run:
            run.replace("waits", cast("DataFrame", Table([])))
    assert (tmp_path / scratch).is_dir()
    slow.publish()
    assert all((tmp_path / folder).is_dir() for folder in read_pointer(tmp_path).folders)


@pytest.mark.wide
def test_an_ingest_that_is_overtaken_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is little left to read; but not for ever."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.jsonl").touch()
    said: list[str] = []

    def overtaken(*_: object) -> Ingested:
        raise OvertakenError("another run has published")

    def tried(*_: object) -> Ingested:
        monkeypatch.setattr(ingesting._Ingest, "ingested", lambda _: Ingested(version=7))
        return overtaken()

    monkeypatch.setattr(ingesting._Ingest, "ingested", tried)
    done = ingesting.ingest(Folders(tmp_path), tmp_path / "logs", say=said.append)
    assert (done.version, len(said)) == (7, 1)
    monkeypatch.setattr(ingesting._Ingest, "ingested", overtaken)
    with pytest.raises(PipelineError, match="has published"):
        ingesting.ingest(Folders(tmp_path), tmp_path / "logs", say=said.append)
    assert len(said) == 3


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    version(tmp_path, 1)

    def write() -> None:
        with Folders(tmp_path).publishing() as run:
            run.replace("waits", cast("DataFrame", Table([])))
            raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write()
    assert not list(tmp_path.glob("waits/*"))


def test_an_interrupt_just_after_publishing_removes_nothing(tmp_path: Path) -> None:
    run = Folders(tmp_path).begin()
    run.replace("waits", cast("DataFrame", Table([])))
    write_pointer(tmp_path, Pointer(), run.pointer)  # as far as `publish` has come
    run.discard()
    (folder,) = read_pointer(tmp_path).tables["waits"]
    assert (tmp_path / folder).is_dir()


def test_a_mistyped_folder_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="has no table 'attempts'"):
        publish.write_waits(Folders(tmp_path / "warehose"), lambda _: None)
    assert not (tmp_path / "warehose").exists()


def test_what_is_published_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file that a power loss empties Spark says nothing: its rows would not be there."""
    safe: set[str] = set()

    def note(opened: int) -> None:
        safe.add(str(Path(f"/proc/self/fd/{opened}").readlink()))

    warehouse = Folders(tmp_path)
    run = warehouse.begin(make=True)
    run.replace("attempts", cast("DataFrame", Table([])))
    folder = next(tmp_path.glob("attempts/run=*"))
    (folder / "part-0.parquet").write_text("rows")
    monkeypatch.setattr(os, "fsync", note)
    run.publish()
    run.release()
    assert {str(folder / "part-0.parquet"), str(folder), str(folder.parent)} <= safe
