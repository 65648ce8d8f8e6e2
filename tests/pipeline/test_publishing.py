"""What a run reads, and what it leaves behind, when others publish or it is cut short. No Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from celery_fair.pipeline import publish
from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.pointer import Pointer, read_pointer, write_pointer
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
        Path(path).mkdir(parents=True)


class Folders(Warehouse):
    """A warehouse whose tables are not read."""

    def __init__(self, root: Path) -> None:
        super().__init__(cast("SparkSession", None), root)

    def read(self, folders: Sequence[str], schema: Any) -> DataFrame:
        return cast("DataFrame", Table(folders))


def version(root: Path, number: int) -> None:
    """Publish a version with two tables of its own."""
    tables = {name: [f"{name}/run={number:06d}-abcdef"] for name in ("attempts", "processes")}
    for (folder,) in tables.values():
        (root / folder).mkdir(parents=True)
    pointer = Pointer(number, tables, dict.fromkeys(tables, "id string"))
    write_pointer(root, read_pointer(root), pointer)


def test_a_run_reads_one_version(tmp_path: Path) -> None:
    """Of two, starts could be missing while the logs that have them are complete."""
    version(tmp_path, 1)

    def read_and_write() -> None:
        with Folders(tmp_path).publishing() as run:
            run.table("attempts")
            version(tmp_path, 2)
            found = cast("Table", run.table("processes"))
            assert found.folders == ["processes/run=000001-abcdef"]
            run.replace("audit", cast("DataFrame", Table([])))

    with pytest.raises(PipelineError, match="has published version 2"):
        read_and_write()
    assert not list(tmp_path.glob("audit/*"))


def test_gold_is_made_of_one_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ingest that ends while the audit begins does not mix with what was there before."""
    version(tmp_path, 1)

    def doubts(processes: Table, *_: object) -> Table:
        version(tmp_path, 2)
        return processes

    def audit(attempts: Table, processes: Table, *_: object) -> Table:
        assert [attempts.folders, processes.folders] == [
            [f"{name}/run=000001-abcdef"] for name in ("attempts", "processes")
        ]
        return attempts

    monkeypatch.setattr(publish, "_completed", lambda table, _: table)
    monkeypatch.setattr(publish, "doubts", doubts)
    monkeypatch.setattr(publish, "audit", audit)
    for name in ("replayable", "changes"):
        monkeypatch.setattr(publish, name, lambda *tables: tables[0])
    with pytest.raises(PipelineError, match="has published version 2"):
        publish.write_audit(Folders(tmp_path), None, lambda _: None)


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
    write_pointer(tmp_path, Pointer(), run._after)  # as far as `publish` has come
    run.discard()
    (folder,) = read_pointer(tmp_path).tables["waits"]
    assert (tmp_path / folder).is_dir()


def test_a_mistyped_folder_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="has no table 'attempts'"):
        publish.write_waits(Folders(tmp_path / "warehose"), lambda _: None)
    assert not (tmp_path / "warehose").exists()
