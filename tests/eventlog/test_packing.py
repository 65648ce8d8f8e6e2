"""An hour's files in one: whenever that is cut short, nothing is lost for those who read."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from time import time
from types import SimpleNamespace
from typing import Any

import pytest

from celery_fair.eventlog import Policy, packer, sweep
from celery_fair.eventlog.log_file import FileName
from celery_fair.eventlog.packer import PACKED, digest, pack
from celery_fair.eventlog.writer import host_folder

HOUR = 3600
LONG_AGO = int(time()) // HOUR * HOUR - 3 * HOUR


class Killed(BaseException):
    """As SIGKILL: nothing is done afterwards."""


def plant(folder: Path, since: int, count: int, torn: str = "", age: float = 7200) -> list[Path]:
    """Write `count` files of a process, with two records each."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(count):
        path = folder / str(FileName(since + 60 * number, "n", 7, "b", number))
        lines = [json.dumps({"seq": 2 * number + each}) for each in range(2)]
        path.write_text("".join(f"{line}\n" for line in lines) + torn)
        os.utime(path, (time() - age, time() - age))
        paths.append(path)
    return paths


def lines(folder: Path) -> list[str]:
    """What readers see."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith("_"):
            continue
        content = path.read_bytes()
        text = gzip.decompress(content) if path.name.endswith(".gz") else content
        found += text.decode().splitlines()
    return found


def numbers(folder: Path) -> list[int]:
    return [json.loads(line)["seq"] for line in lines(folder)]


def test_an_hour_becomes_one_file(tmp_path: Path) -> None:
    paths = plant(tmp_path, LONG_AGO, 60)
    plant(tmp_path, LONG_AGO + HOUR, 60)
    size = sum(path.stat().st_size for path in paths)
    assert pack(tmp_path) == 120
    first, second = sorted(tmp_path.iterdir())
    assert first.name.startswith(f"{LONG_AGO}-")
    assert first.name.endswith(PACKED)
    assert second.name.startswith(f"{LONG_AGO + HOUR}-")
    assert sorted(numbers(tmp_path)) == sorted([*range(120), *range(120)])
    assert first.stat().st_size < size / 4
    assert pack(tmp_path) == 0


def test_what_is_left_alone(tmp_path: Path) -> None:
    """The hour that is not over, what has changed just now, open files, and those of others."""
    this_hour = int(time()) // HOUR * HOUR
    paths = plant(tmp_path, this_hour, 1)
    paths += plant(tmp_path, LONG_AGO, 1, age=0)
    for name in ("_open-1-n-7-b-9.jsonl", "copy.jsonl", "mine.txt"):
        path = tmp_path / name
        path.write_text("{}\n")
        os.utime(path, (0, 0))
        paths.append(path)
    assert pack(tmp_path) == 0
    assert set(tmp_path.iterdir()) == set(paths)
    assert pack(tmp_path / "missing") == 0


@pytest.mark.parametrize("torn", ['{"se', '{"seq": 9}', '{"quanta": {"q": 1.0}\n', "{\0}\n", "7\n"])
def test_a_file_with_a_torn_line_stays(tmp_path: Path, torn: str) -> None:
    """Else nobody could say whose the line was."""
    (torn_one,) = plant(tmp_path, LONG_AGO, 1, torn=torn)
    plant(tmp_path, LONG_AGO + HOUR, 2)
    assert pack(tmp_path) == 2
    assert len(list(tmp_path.iterdir())) == 2
    assert torn_one.exists()


def test_packs_are_not_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = plant(tmp_path, LONG_AGO, 10)[0].stat().st_size
    monkeypatch.setattr(packer, "_MOST", 4 * size)
    pack(tmp_path)
    assert len(list(tmp_path.iterdir())) >= 3
    assert sorted(numbers(tmp_path)) == list(range(20))


def test_a_disk_that_is_nearly_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of it is for those who write."""
    paths = plant(tmp_path, LONG_AGO, 10)
    size = sum(path.stat().st_size for path in paths)
    monkeypatch.setattr(packer.shutil, "disk_usage", lambda _: SimpleNamespace(free=size - 1))
    assert pack(tmp_path) == 0
    assert set(tmp_path.iterdir()) == set(paths)
    monkeypatch.setattr(packer.shutil, "disk_usage", lambda _: SimpleNamespace(free=size))
    assert pack(tmp_path) == 10


def killing(at: int, counted: list[int], function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any, **options: Any) -> Any:
        counted[0] += 1
        if counted[0] == at:
            raise Killed
        return function(*args, **options)

    return called


@pytest.mark.parametrize("at", range(1, 12))
def test_killed_at_any_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Before each of its system calls in turn: what readers see is whole, and twice at the most."""
    plant(tmp_path, LONG_AGO, 3)
    counted = [0]
    with monkeypatch.context() as patched:
        for owner, name in (
            (os, "fsync"),
            (Path, "rename"),
            (Path, "unlink"),
            (packer, "_copy"),
            (packer, "force"),
        ):
            patched.setattr(owner, name, killing(at, counted, getattr(owner, name)))
        try:
            pack(tmp_path)
        except Killed:
            assert counted[0] == at
    assert set(numbers(tmp_path)) == set(range(6))
    assert max(map(numbers(tmp_path).count, range(6))) <= 2
    pack(tmp_path)
    assert set(numbers(tmp_path)) == set(range(6))
    assert max(map(numbers(tmp_path).count, range(6))) <= 2
    assert not list(tmp_path.glob("_*"))
    assert not list(tmp_path.glob("*-b-*.jsonl"))


def test_the_sweeper_packs_and_counts_what_is_packed(tmp_path: Path) -> None:
    folder = host_folder(tmp_path)
    plant(folder, LONG_AGO, 3)
    plant(folder, LONG_AGO + HOUR, 3)
    sweep(Policy(tmp_path))
    old, _ = sorted(folder.iterdir())
    os.utime(old, (0, 0))
    sweep(Policy(tmp_path, limit=old.stat().st_size + 1))
    assert old not in list(folder.iterdir())


def test_the_name_of_a_pack(tmp_path: Path) -> None:
    members = [(path.name, path.stat().st_size) for path in plant(tmp_path, LONG_AGO, 3)]
    pack(tmp_path)
    (packed,) = tmp_path.iterdir()
    assert packed.name == f"{LONG_AGO}-{digest(members[::-1])}{PACKED}"
    assert digest(members) != digest(members[:2])
