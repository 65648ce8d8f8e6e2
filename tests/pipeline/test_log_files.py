"""Which files there are, as Spark sees them: nobody's log may be overlooked. No Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.log_files import log_files
from celery_fair.pipeline.reading import check, open_copies
from celery_fair.pipeline.silver.unread import _parsed, files_there
from celery_fair.pipeline.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPEN = "_open-1700000000-celery@n-7-ab12-0.jsonl"


def linked(root: Path) -> Path:
    """A folder of logs in which another host's is a link, and below that a link back."""
    there, logs = root / "elsewhere" / "host", root / "logs"
    there.mkdir(parents=True)
    logs.mkdir()
    (there / OPEN).touch()
    (logs / "host").symlink_to(there)
    (there / "back").symlink_to(logs)
    return logs


def test_links_are_followed_and_no_circle_is(tmp_path: Path) -> None:
    logs = linked(tmp_path)
    assert list(log_files(logs, "*.jsonl")) == [logs / "host" / OPEN]
    check(logs)


def test_an_unread_log_behind_a_link_is_seen(tmp_path: Path) -> None:
    """Else what its process has started would be called replayable."""
    (name,) = filter(None, map(_parsed, files_there(linked(tmp_path))))
    assert (name.pid, name.boot) == (7, "ab12")


def test_a_compressed_file_without_a_byte_is_not_overlooked(tmp_path: Path) -> None:
    """Spark does not list it; whoever lists the names sees that a process has lost its log."""
    (tmp_path / f"{OPEN.removeprefix('_open-')}.gz").touch()
    (name,) = filter(None, map(_parsed, files_there(tmp_path)))
    assert (name.pid, name.boot, name.number) == (7, "ab12", 0)


def test_a_folder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who runs the tests may be root, whom no mode stops."""
    logs = linked(tmp_path)
    scandir = os.scandir

    def refused(path: str) -> object:
        if Path(path).name == "host":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(PipelineError, match=r"host cannot be read \(Permission denied\)"):
        list(log_files(logs, "*"))


def test_a_folder_that_is_gone_meanwhile(tmp_path: Path) -> None:
    assert not list(log_files(tmp_path / "gone", "*"))


def test_an_open_file_that_is_sealed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read as a sealed one: files are listed after the copies are made."""
    logs = linked(tmp_path)
    other = OPEN.replace("-7-", "-8-")
    (logs / other).write_text("its line\n")
    read = Path.read_bytes

    def sealed(path: Path) -> bytes:
        if "-7-" in path.name:
            path.rename(path.with_name(path.name.removeprefix("_open-")))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", sealed)
    copies = open_copies(Warehouse(cast("SparkSession", None), tmp_path), logs)
    assert [path.read_text() for path in copies] == ["its line\n"]
    assert list(copies[0].parent.iterdir()) == copies
