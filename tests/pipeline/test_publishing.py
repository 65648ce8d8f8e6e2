"""What is read, and what is left behind, when others publish or it is cut short. No Spark."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Any, cast

import pytest

from celery_fair.pipeline import publish as publishing
from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.gold.waits import waits
from celery_fair.pipeline.publish import publish, publish_audit
from celery_fair.pipeline.warehouse import FORMAT, Warehouse, read_pointer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AT_ONCE = 4
SILVER = ("attempts", "processes", "gaps", "unread", "unreadable")


class Table:
    """Stands for a DataFrame: it only knows the folders that it is of."""

    def __init__(self, folders: Sequence[str] = ()) -> None:
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

    def known(self, table: str, schema: Any) -> DataFrame:
        return self.table(table) if self.has(table) else cast("DataFrame", Table())

    def folders(self, table: str) -> list[str]:
        return cast("Table", self.table(table)).folders

    def put(self, *tables: str) -> None:
        """Publish tables."""
        with self.publishing():
            for table in tables:
                self.replace(table, cast("DataFrame", Table()))


def say(_: str) -> None:
    """Nobody listens."""


def ingest(root: Path) -> None:
    """Publish another version of silver."""
    warehouse = Folders(root)
    with warehouse.ingesting(say):
        warehouse.put(*SILVER)


@pytest.mark.wide
def test_gold_is_made_of_one_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ingest that ends while the audit begins does not mix with what was there before."""
    ingest(tmp_path)
    before = read_pointer(tmp_path)

    def doubts(processes: Table, gaps: Table, unread: Table, unreadable: None) -> Table:
        ingest(tmp_path)
        return processes

    def audit(attempts: Table, processes: Table, doubts: Table, since: None, within: None) -> Table:
        found = [attempts.folders, processes.folders]
        assert found == [before.tables["attempts"], before.tables["processes"]]
        return attempts

    def changes(before: Table, audit: Table) -> Table:
        return audit

    for make in (doubts, audit, changes):
        monkeypatch.setattr(publishing, make.__name__, make)
    publish_audit(Folders(tmp_path), say)
    assert read_pointer(tmp_path).version == 3


def test_a_report_reads_one_version_though_many_are_published(tmp_path: Path) -> None:
    """And nobody removes under it what it reads; when it has ended, it is removed."""
    ingest(tmp_path)
    (first,) = read_pointer(tmp_path).tables["attempts"]
    report = Folders(tmp_path)
    for number in range(3):
        ingest(tmp_path)
        ingest(tmp_path)
        report.put(f"gold{number}")
        assert report.folders("attempts") == [first]
        assert (tmp_path / first).is_dir()
    for number in range(3):
        assert all((tmp_path / each).is_dir() for each in report.folders(f"gold{number}"))
    del report
    gc.collect()
    ingest(tmp_path)
    assert not (tmp_path / first).exists()
    present = read_pointer(tmp_path)
    assert present.tables.keys() == {*SILVER, *(f"gold{number}" for number in range(3))}
    assert all((tmp_path / folder).is_dir() for folder in present.folders)


@pytest.mark.wide
def test_of_two_reports_both_can_be_read(tmp_path: Path) -> None:
    """Others see what the last has made, which is of the same version or a newer one."""
    ingest(tmp_path)
    slow, fast = Folders(tmp_path), Folders(tmp_path)
    fast.put("waits")
    slow.put("waits")
    assert read_pointer(tmp_path).tables["waits"] == slow.folders("waits") != fast.folders("waits")
    for _ in range(3):
        ingest(tmp_path)
    for each in (slow, fast):
        assert all((tmp_path / folder).is_dir() for folder in each.folders("waits"))


def test_what_was_there_before_the_warehouse_is_left(tmp_path: Path) -> None:
    """A folder that was named by mistake may have tables of somebody else's."""
    theirs = [tmp_path / name for name in ("experiments/run=5", "a/run=abcdef", ".scratch-pad")]
    killed = [tmp_path / name for name in ("events/run=abcdef-0", ".scratch-open-abcdef")]
    for folder in (*theirs, *killed):
        folder.mkdir(parents=True)
    ingest(tmp_path)
    assert all(folder.is_dir() for folder in theirs)
    assert not any(folder.exists() for folder in killed)


def test_a_slow_run_is_not_cleared_away_under_its_hands(tmp_path: Path) -> None:
    ingest(tmp_path)
    slow = Folders(tmp_path)
    with slow.publishing():
        slow.replace("audit", cast("DataFrame", Table()))
        scratch = slow.scratch("open")
        (tmp_path / scratch).mkdir()
        for _ in range(3):
            ingest(tmp_path)
        assert (tmp_path / scratch).is_dir()
    assert not (tmp_path / scratch).exists()
    assert all((tmp_path / folder).is_dir() for folder in read_pointer(tmp_path).folders)


def test_what_is_published_at_once_is_there_beside_each_other(tmp_path: Path) -> None:
    start = Barrier(AT_ONCE)

    def put(number: int) -> None:
        warehouse = Folders(tmp_path)
        start.wait()
        warehouse.put(f"t{number}")

    ingest(tmp_path)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(put, range(AT_ONCE)))
    present = read_pointer(tmp_path)
    assert present.version == 1 + AT_ONCE
    assert present.tables.keys() == {*SILVER, *(f"t{number}" for number in range(AT_ONCE))}
    assert all((tmp_path / folder).is_dir() for folder in present.folders)


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    ingest(tmp_path)
    warehouse = Folders(tmp_path)

    def write() -> None:
        with warehouse.publishing():
            warehouse.replace("waits", cast("DataFrame", Table()))
            raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write()
    assert not list(tmp_path.glob("waits/*"))
    assert not warehouse.has("waits")


def test_an_interrupt_just_after_publishing_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(tmp_path)
    replace = Path.replace

    def interrupted(path: Path, target: Path) -> None:
        replace(path, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Folders(tmp_path).put("waits")
    (folder,) = read_pointer(tmp_path).tables["waits"]
    assert (tmp_path / folder).is_dir()


def test_a_mistyped_folder_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="has no table 'attempts'"):
        publish(Folders(tmp_path / "warehose"), say, waits)
    assert not (tmp_path / "warehose").exists()


def test_what_is_no_warehouse_is_left_as_it_is(tmp_path: Path) -> None:
    assert not Folders(tmp_path).has("attempts")
    assert not list(tmp_path.iterdir())


def test_what_is_published_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file that a power loss empties Spark says nothing: its rows would not be there."""
    safe: set[str] = set()

    def note(opened: int) -> None:
        safe.add(str(Path(f"/proc/self/fd/{opened}").readlink()))

    warehouse = Folders(tmp_path)
    with warehouse.ingesting(say), warehouse.publishing():
        warehouse.replace("attempts", cast("DataFrame", Table()))
        folder = next(tmp_path.glob("attempts/run=*"))
        (folder / "part-0.parquet").write_text("rows")
        monkeypatch.setattr(os, "fsync", note)
    assert {str(folder / "part-0.parquet"), str(folder), str(folder.parent)} <= safe


@pytest.mark.parametrize("text", ["", "{}", '{"v": 2}', "[]", '{"v": 2, "version": "x"}'])
def test_what_is_no_pointer(tmp_path: Path, text: str) -> None:
    (tmp_path / "current.json").write_text(text)
    with pytest.raises(PipelineError, match="is this a warehouse"):
        read_pointer(tmp_path)


def test_a_warehouse_of_another_format(tmp_path: Path) -> None:
    text = {"v": FORMAT + 8, "version": 1, "tables": {}, "schemas": {}}
    (tmp_path / "current.json").write_text(json.dumps(text))
    told = (
        f"a warehouse of format {FORMAT + 8}, and this celery-fair reads {FORMAT}: use the version"
    )
    with pytest.raises(PipelineError, match=told):
        read_pointer(tmp_path)


def test_who_may_read_the_tables_may_read_which_they_are(tmp_path: Path) -> None:
    """One user ingests, another one asks."""
    ingest(tmp_path)
    (tmp_path / "table").touch()
    assert (tmp_path / "current.json").stat().st_mode == (tmp_path / "table").stat().st_mode
