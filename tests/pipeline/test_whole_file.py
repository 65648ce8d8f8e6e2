"""What commands write for others is there whole, or not at all. No Spark."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from celery_fair.pipeline.owned import owned
from celery_fair.pipeline.whole_file import whole_file


def test_who_reads_meanwhile_sees_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    path.chmod(0o600)
    with whole_file(path) as file:
        file.write("né")
        assert path.read_text() == "old"
    assert path.read_bytes() == "né".encode()
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_what_is_not_finished_is_not_there(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "ids.jsonl"

    def write() -> None:
        with whole_file(path) as file:
            file.write("half")
            raise error

    with pytest.raises(error):
        write()
    assert not list(tmp_path.iterdir())
    path.write_text("old")
    with pytest.raises(error):
        write()
    assert path.read_text() == "old"


def test_what_a_killed_writer_has_left_goes(tmp_path: Path) -> None:
    """What one writes who is alive stays, and what has another name."""
    path, left = tmp_path / "report.html", tmp_path / ".report.html.7"
    others = {tmp_path / name for name in (".report.html.old", ".report2html.7", "x.report.html.7")}
    for each in (left, *others):
        each.touch()
    with owned(tmp_path / ".report.html.8") as theirs:
        with whole_file(path) as file:
            file.write("new")
        assert {*tmp_path.iterdir()} == {path, Path(theirs.name), *others}


def test_a_link_stays_one(tmp_path: Path) -> None:
    there, link = tmp_path / "there", tmp_path / "link"
    there.write_text("old")
    link.symlink_to(there)
    with whole_file(link) as file:
        file.write("new")
    assert link.is_symlink()
    assert there.read_text() == "new"


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    """Such as /dev/stdout, which root could replace."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with whole_file(pipe) as file:
            file.write("ids")
        assert os.read(reader, 9) == b"ids"
        assert pipe.is_fifo()
    finally:
        os.close(reader)
