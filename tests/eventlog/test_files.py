"""The files themselves: writers that die, disks that are full, and those who tidy up."""

from __future__ import annotations

import json
import mmap
import multiprocessing
import os
import resource
import signal
from pathlib import Path
from time import time
from typing import Any

import pytest

from celery_fair.eventlog import EventLog, Policy, log_file, sweep
from celery_fair.eventlog.log_file import LogFile
from celery_fair.eventlog.records import VERSION
from celery_fair.eventlog.writer import host_folder
from tests.eventlog.reading import processes, records
from tests.waiting import wait_for

FORK = multiprocessing.get_context("fork")


def log_in(folder: Path, **policy: Any) -> EventLog:
    return EventLog(Policy(folder, **policy), "worker@host")


def test_a_file_is_sealed_by_its_size(tmp_path: Path) -> None:
    log = log_in(tmp_path, rotate_bytes=1000)
    for _ in range(50):
        log.record("queue", {"queue": "a", "state": "empty"})
    log.close()
    assert [record["seq"] for record in records(tmp_path)] == list(range(50))
    files = list(tmp_path.rglob("*"))
    sizes = [path.stat().st_size for path in files if path.is_file()]
    assert len(sizes) > 5
    assert max(sizes) < 1200
    assert not [path for path in files if path.name.startswith("_")]


def test_a_file_is_sealed_by_its_age(tmp_path: Path) -> None:
    log = log_in(tmp_path, rotate=1e-9)
    for _ in range(3):
        log.record("queue", {})
    log.close()
    assert len(list(tmp_path.rglob("*.jsonl"))) == 3


@pytest.mark.parametrize("fsync", ["never", "seal", "always"])
def test_every_policy_of_fsync_writes_the_same(tmp_path: Path, fsync: str) -> None:
    log = log_in(tmp_path, fsync=fsync)
    log.record("queue", {"queue": 'a "quoted" ümläut\n'})
    log.close()
    assert [record["queue"] for record in records(tmp_path)] == ['a "quoted" ümläut\n']


def test_a_forked_child_has_a_log_of_its_own(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.record("queue", {"queue": "before"})

    def child() -> None:
        log.record("queue", {"queue": "child"})
        log.close()

    process = FORK.Process(target=child)
    process.start()
    process.join(30)
    assert process.exitcode == 0
    log.record("queue", {"queue": "after"})
    log.close()

    found = processes(tmp_path)
    mine = (log.node, os.getpid(), log.boot)
    assert [r["queue"] for r in found.pop(mine)] == ["before", "after"]
    ((process_id, (record,)),) = found.items()
    assert (process_id[1], record["seq"], record["queue"]) == (process.pid, 0, "child")


def write_for_ever(folder: Path, done: memoryview, place: int) -> None:
    """Counts what it has written; by an item, as struct zeroes the place before it packs."""
    log = log_in(folder, rotate_bytes=200_000)
    count = 0
    while True:
        log.record("started", {"id": f"{count}", "task": "t" * 100})
        count += 1
        done[place] = count


def take_out_torn(folder: Path) -> None:
    """Take out the half of a write that crosses a page, in whose midst its writer was killed.

    It is the line before the word of the writer's end; any other must be whole.
    """
    for path in folder.rglob("*.jsonl"):
        # Who was killed between two files leaves the new one empty.
        *lines, end = path.read_bytes().splitlines(keepends=True) or [b""]
        if lines and b'"state":"dead"' in end and not lines[-1].endswith(b"}\n"):
            path.write_bytes(b"".join((*lines[:-1], end)))


def test_writers_that_are_killed_lose_nothing_and_tear_nothing(tmp_path: Path) -> None:
    """What a finished write had taken is there, whole, and is followed by a word of their end."""
    done = memoryview(mmap.mmap(-1, 8 * 4)).cast("q")
    writers = [
        FORK.Process(target=write_for_ever, args=(tmp_path, done, place)) for place in range(4)
    ]
    for writer in writers:
        writer.start()
    wait_for(lambda: min(done) > 2000, 60)
    for writer in writers:
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join(30)

    age(*tmp_path.rglob("_open-*"))
    assert sweep(Policy(tmp_path)) >= 1
    assert sweep(Policy(tmp_path)) == 0

    assert not list(tmp_path.rglob("_open-*"))
    take_out_torn(tmp_path)
    known = {pid: found for (_, pid, _), found in processes(tmp_path).items()}
    for writer, count in zip(writers, done, strict=True):
        assert writer.pid is not None
        *written, end = known[writer.pid]
        assert (end["kind"], end["state"]) == ("process", "dead")
        assert "seq" not in end
        assert [record["seq"] for record in written] == list(range(len(written)))
        assert count <= len(written) <= count + 1
        assert [record["id"] for record in written] == [str(n) for n in range(len(written))]


def write_and_die(folder: Path, sealed: bool) -> None:
    """Be killed between two files, after the first was sealed or before."""
    seal = LogFile.seal

    def seal_and_die(file: LogFile, sync: bool = False) -> None:
        if sealed:
            seal(file, sync)
        os.kill(os.getpid(), signal.SIGKILL)

    LogFile.seal = seal_and_die  # type: ignore[method-assign]
    log = log_in(folder, rotate=1e-9)
    log.record("queue", {"queue": "first"})
    log.record("queue", {"queue": "never written"})


@pytest.mark.parametrize("sealed", [True, False])
def test_who_was_killed_between_two_files_is_dead(tmp_path: Path, sealed: bool) -> None:
    process = FORK.Process(target=write_and_die, args=(tmp_path, sealed))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert [path.stat().st_size for path in tmp_path.rglob("_open-*")].count(0) == 1

    age(*tmp_path.rglob("_open-*"))
    sweep(Policy(tmp_path))
    sweep(Policy(tmp_path))

    assert not list(tmp_path.rglob("_*"))
    ((_, found),) = processes(tmp_path).items()
    assert [record.get("seq") for record in found] == [0, None]
    assert "dropped" not in found[1]
    assert found[1]["last"] == 0
    assert (found[1]["kind"], found[1]["state"], found[1]["v"]) == ("process", "dead", VERSION)


def test_a_file_that_could_not_be_renamed_does_not_make_its_owner_dead(tmp_path: Path) -> None:
    """It is open and nobody's, but the process goes on in another one."""
    log = log_in(tmp_path, rotate=1e-9)
    log.record("queue", {"queue": "first"})
    (first,) = tmp_path.rglob("_open-*")
    log.record("queue", {"queue": "second"})
    sealed = first.with_name(first.name.removeprefix("_open-"))
    sealed.rename(first)
    assert sweep(Policy(tmp_path)) == 1
    assert sealed.exists()
    log.close()
    assert [record["queue"] for record in records(tmp_path)] == ["first", "second"]


def test_what_another_version_has_written_is_no_last_record(tmp_path: Path) -> None:
    """Nobody declares a process dead whose records may mean something else."""
    folder = host_folder(tmp_path)
    folder.mkdir()
    record = {"v": VERSION + 1, "kind": "queue", "node": "n", "pid": 1, "boot": "b", "seq": 4}
    line = json.dumps(record | {"at": int(time() * 1e6)}) + "\n"
    (folder / "_open-1-n-1-b-0.jsonl").write_text(line)
    assert sweep(Policy(tmp_path)) == 1
    assert (folder / "1-n-1-b-0.jsonl").read_text() == line


def test_what_was_killed_at_its_birth_is_removed(tmp_path: Path) -> None:
    """Not at once: a file that is not locked yet may be its owner's."""
    folder = host_folder(tmp_path)
    folder.mkdir()
    for name in ("_open-old.jsonl", "_open-young.jsonl"):
        (folder / name).touch()
    age(folder / "_open-old.jsonl")
    sweep(Policy(tmp_path))
    assert [path.name for path in folder.iterdir()] == ["_open-young.jsonl"]


def age(*paths: Path) -> None:
    """Have them two minutes behind them."""
    for path in paths:
        os.utime(path, (time() - 120, time() - 120))


def test_who_lives_is_not_swept(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.record("queue", {})
    assert sweep(Policy(tmp_path)) == 0
    assert list(host_folder(tmp_path).glob("_open-*"))
    log.close()


def test_a_torn_line_is_ended_before_the_next(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.record("queue", {"queue": "whole"})
    log.close()
    (sealed,) = tmp_path.rglob("*.jsonl")
    torn = sealed.rename(sealed.with_name(f"_open-{sealed.name}"))
    with torn.open("ab") as file:
        file.write(b'{"v":1,"node":"worker@host","pi')

    assert sweep(Policy(tmp_path)) == 1

    lines = sealed.read_text().splitlines()
    assert lines[1] == '{"v":1,"node":"worker@host","pi'
    dead = json.loads(lines[2])
    assert (dead["state"], dead["dropped"]) == ("dead", 1)


def test_a_disk_that_takes_half_of_what_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file stays open, for the next sweep to say it whole."""
    log = log_in(tmp_path)
    log.record("queue", {"queue": "whole"})
    log.close()
    (sealed,) = tmp_path.rglob("*.jsonl")
    sealed.rename(sealed.with_name(f"_open-{sealed.name}"))
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda fd, line: write(fd, line[: len(line) // 2]))
        assert sweep(Policy(tmp_path)) == 0
    assert sweep(Policy(tmp_path)) == 1
    dead = json.loads(sealed.read_text().splitlines()[2])
    assert (dead["state"], dead["dropped"]) == ("dead", 1)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_volume_that_comes_from_a_host_that_went_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    """What was written last before that may be lost, though no line is torn."""
    log = log_in(tmp_path)
    log.record("queue", {"queue": "q"})
    log.close()
    (sealed,) = tmp_path.rglob("*.jsonl")
    sealed.rename(sealed.with_name(f"_open-{sealed.name}"))
    if elsewhere:
        other = tmp_path / "boot_id"
        other.write_text("7b0f9c5e-0000-4000-8000-000000000000\n")
        monkeypatch.setattr(log_file, "_BOOT_ID", other)

    assert sweep(Policy(tmp_path)) == 1

    _, dead = records(tmp_path)
    assert dead.get("dropped") == (1 if elsewhere else None)


def test_what_another_host_has_left_may_be_cut_off(tmp_path: Path) -> None:
    other = tmp_path / "another-host"
    other.mkdir()
    at = int(time() * 1e6)
    record = {"v": VERSION, "node": "n", "pid": 1, "boot": log_file.new_name(), "seq": 4, "at": at}
    left = other / "_open-1-n-1-b-0.jsonl"
    left.write_text(json.dumps(record) + "\n")
    os.utime(left, (time() - 7200, time() - 7200))
    assert sweep(Policy(tmp_path)) == 1
    _, dead = records(tmp_path)
    assert dead["dropped"] == 1


def fill_the_disk(folder: Path) -> None:
    """As a full disk does: a part of a line is written, then nothing, then there is room again."""
    log = log_in(folder)
    log.record("queue", {"queue": "first"})
    size = next(folder.rglob("*.jsonl")).stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, hard))
    for _ in range(10):
        log.record("queue", {"queue": "lost"})
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.record("queue", {"queue": "last"})
    assert log.dropped == 10
    log.close()


def test_a_full_disk(tmp_path: Path) -> None:
    process = FORK.Process(target=fill_the_disk, args=(tmp_path,))
    process.start()
    process.join(30)
    assert process.exitcode == 0
    (path,) = tmp_path.rglob("*.jsonl")
    first, torn, last = path.read_text().splitlines()
    assert json.loads(first)["seq"] == 0
    with pytest.raises(ValueError, match=r"Expecting|Unterminated|delimiter"):
        json.loads(torn)
    assert (json.loads(last)["seq"], json.loads(last)["queue"]) == (11, "last")


def die_behind(folder: Path, rotate: float, room_again: bool) -> None:
    log = log_in(folder, rotate=rotate)
    log.record("queue", {"queue": "first"})
    size = next(folder.rglob("*.jsonl")).stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0 if rotate < 1 else size, hard))
    log.record("queue", {"queue": "lost"})
    if room_again:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        log.record("queue", {"queue": "last"})
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("room_again", [False, True])
@pytest.mark.parametrize("rotate", [1e-9, 60.0], ids=["in a new file", "in its file"])
def test_who_dies_while_the_disk_is_full_has_lost_something(
    tmp_path: Path, rotate: float, room_again: bool
) -> None:
    """Which nothing could tell, but for what takes no room. Later, numbers do."""
    process = FORK.Process(target=die_behind, args=(tmp_path, rotate, room_again))
    process.start()
    process.join(30)
    assert process.exitcode == -signal.SIGKILL
    age(*tmp_path.rglob("_open-*"))
    assert sweep(Policy(tmp_path)) == 1
    *_, last, dead = records(tmp_path)
    assert (last["seq"], dead.get("dropped")) == ((2, None) if room_again else (0, 1))


def test_the_oldest_files_are_deleted_beyond_the_limit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = log_in(tmp_path, rotate_bytes=1)
    for n in range(10):
        log.record("queue", {"queue": str(n)})
    log.close()
    files = sorted(tmp_path.rglob("*.jsonl"), key=lambda path: path.read_text())
    for age, path in enumerate(reversed(files)):
        os.utime(path, (1e9 - age, 1e9 - age))
    size = max(path.stat().st_size for path in files)

    sweep(Policy(tmp_path, limit=3 * size))

    assert sorted(record["queue"] for record in records(tmp_path)) == ["7", "8", "9"]
    assert caplog.text.count("Deleting") == 7


def test_a_record_in_a_file_that_was_taken_away_is_not_kept(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    assert log.keeps("queue", {"queue": "one"})
    (path,) = tmp_path.rglob("*.jsonl")
    path.unlink()
    assert not log.keeps("queue", {"queue": "two"})
    log.close()
    assert log.keeps("queue", {"queue": "three"})  # in the next file
    log.close()


def test_a_folder_that_is_taken_away_is_made_again(tmp_path: Path) -> None:
    log = log_in(tmp_path / "log", rotate=1e-9)
    log.record("queue", {"queue": "one"})
    for path in sorted((tmp_path / "log").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    log.record("queue", {"queue": "two"})
    log.close()
    assert [record["queue"] for record in records(tmp_path)] == ["two"]


@pytest.mark.parametrize(
    "line",
    [
        '{"v":null,"node":"n","pid":7,"boot":"ab","at":1,"seq":0}',
        '{"v":1,"node":"n","pid":7,"boot":"ab","at":"1","seq":0}',
        "[" * 200_000,
        "[1]",
    ],
    ids=["version", "time", "deep", "list"],
)
def test_garbage_does_not_keep_the_sweeper_from_the_others(tmp_path: Path, line: str) -> None:
    """Else the folder is not kept within its limit any more, as long as that file is there."""
    folder = host_folder(tmp_path)
    folder.mkdir()
    for boot in ("ab", "cd"):
        (folder / f"_open-1-n-7-{boot}-0.jsonl").write_text(f"{line}\n")
    old = folder / "1-n-7-ef-0.jsonl"
    old.write_text(f"{line}\n")
    os.utime(old, (1, 1))
    assert sweep(Policy(tmp_path, limit=0)) == 2
    assert not list(folder.iterdir())
