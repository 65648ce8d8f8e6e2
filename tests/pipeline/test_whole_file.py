"""What commands write for others is there whole, or not at all. No Spark."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from celery_fair.pipeline.whole_file import whole_file
from tests.waiting import wait_for


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
    """It is written over, however much it was; and what has another name stays."""
    path, other = tmp_path / "report.html", tmp_path / ".report.html.old"
    for left in (tmp_path / ".report.html.draft", other):
        left.write_text("half of a much longer one")
    with whole_file(path) as file:
        file.write("new")
    assert path.read_text() == "new"
    assert {*tmp_path.iterdir()} == {path, other}


def test_of_two_who_write_one_waits(tmp_path: Path) -> None:
    path, begun = tmp_path / "report.html", Event()

    def second() -> None:
        begun.set()
        with whole_file(path) as file:
            file.write("second")

    with ThreadPoolExecutor(1) as threads:
        with whole_file(path) as file:
            done = threads.submit(second)
            begun.wait()
            wait_for(is_waited_for, 60, "the second to wait")
            file.write("first")
        done.result()
    assert path.read_text() == "second"
    assert list(tmp_path.iterdir()) == [path]


def is_waited_for() -> bool:
    """Whether a thread of this process waits for a lock."""
    return f"-> FLOCK  ADVISORY  WRITE {os.getpid()} " in Path("/proc/locks").read_text()


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
