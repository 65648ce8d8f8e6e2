"""The parts of the harness that could mislead every other test."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests import ports, shares
from tests.apps.recorder import Record
from tests.brokers import RedisServer, missing
from tests.preloaded import run_celery
from tests.processes import ENDING, PLACE, ROOT, Process
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(300)  # some are runs of their own, which import as much again


def starts(queues: str) -> list[Record]:
    """One record for each letter, in this order."""
    return [Record(at, 0.0, queue, str(at), at, 1, False) for at, queue in enumerate(queues)]


def test_the_backlogged_part_ends_before_a_queue_runs_out() -> None:
    totals = {"a": 4, "b": 9}
    assert shares.while_backlogged(starts("aababababb"), totals) == starts("aabab")
    assert shares.while_backlogged(starts("aababababb"), totals, warm_up=2) == starts("aabab")[2:]
    assert shares.while_backlogged(starts("aababababb"), totals, reserve=3) == starts("a")


def test_share_figures() -> None:
    got = shares.amounts(starts("aaab"))
    assert got == {"a": 3, "b": 1}
    assert shares.amounts(starts("ab"), cost=lambda record: record.seq + 1) == {"a": 1, "b": 2}
    assert shares.max_share_error(got, {"a": 3, "b": 1}) == 0
    assert shares.share_errors(got, {"a": 1, "b": 1}) == {"a": 0.5, "b": -0.5}
    assert shares.max_share_error({"a": 1}, {"a": 1, "b": 1}) == 1
    assert shares.ratio(got, "a", "b") == 3
    assert shares.jain_index(got, {"a": 3, "b": 1}) == pytest.approx(1)
    assert shares.jain_index({"a": 1, "b": 0}, {"a": 1, "b": 1}) == pytest.approx(0.5)


def test_a_record_survives_its_line() -> None:
    record = Record(123, 1.5, "a queue", "some-id", 7, 42, True)
    assert Record.parse(record.line().decode().rstrip("\n")) == record


def test_a_missing_broker_skips_but_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "false")
    with pytest.raises(pytest.skip.Exception, match="apt-get install nothing-server"):
        missing.program("no-such-broker", package="nothing-server")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no-such-broker is not installed"):
        missing.program("no-such-broker", package="nothing-server")


ABANDONED = """
import os, signal
from tests.brokers import RedisServer
server = RedisServer()
server.start()
server.wait_ready()
print(server.pid, server.folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_leaves_nothing_behind(redis_server: RedisServer) -> None:
    run = subprocess.run(
        [sys.executable, "-c", ABANDONED],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    pid, folder = run.stdout.split()
    wait_for(lambda: not alive(int(pid)), 30, "the broker's end")
    wait_for(lambda: not Path(folder).exists(), 30, "the folder's removal")
    assert redis_server.client.ping()


@pytest.mark.wide
def test_what_a_run_left_that_lost_its_power(tmp_path: Path) -> None:
    """Its reaper, too, could remove nothing: the next run does, and says so."""
    ended = subprocess.run(["sh", "-c", "echo $$"], check=True, capture_output=True, text=True)
    left, others = (tmp_path / f"celery-fair-{pid}-x" for pid in (ended.stdout[:-1], os.getpid()))
    for path in (left, others):
        (path / "redis").mkdir(parents=True)
    done = run_pytest(tmp_path, "def test_nothing():\n    pass", **{PLACE: str(tmp_path)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"removed what an earlier run had left: {left}" in done.stdout
    assert others.exists()
    assert not left.exists()


@pytest.mark.wide
def test_a_run_whose_disk_is_full(tmp_path: Path) -> None:
    """It says so, and what it had written is gone: the next run has the room."""
    place = tmp_path / "place"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a small file system")
    writes = "def test_writes(tmp_path):\n    (tmp_path / 'x').write_bytes(bytes(%d))"
    try:
        full = run_pytest(tmp_path, writes % (2 << 20), **{PLACE: str(place)})
        wait_for(lambda: not any(place.iterdir()), 30, "the folder's removal")
        after = run_pytest(tmp_path, writes % (1 << 19), **{PLACE: str(place)})
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
    assert full.returncode == 1
    assert "No space left on device" in full.stdout
    assert after.returncode == 0, after.stdout + after.stderr


def test_a_port_that_is_taken_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """By whomever: a program that listens, or a run that has been given it."""
    given = ports.free_port()
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        offers = [taken, given, taken, free := ports.free_port()]
        ports._ours.pop().close()  # the last one is given back
        monkeypatch.setattr(ports.random, "choice", lambda _: offers.pop(0))
        assert ports.free_port() == free
    assert not offers


LEAVES_BEHIND = """
import subprocess, tempfile

def test_clean(tmp_path):
    with tempfile.TemporaryDirectory():
        subprocess.run(["true"], check=True)

def test_that_leaves():
    tempfile.mkdtemp(prefix="left-over-")
    subprocess.Popen(["sleep", "600"], start_new_session=True)
"""


@pytest.mark.parametrize("processes", ["0", pytest.param("1", marks=pytest.mark.wide)])
def test_what_is_left_behind_fails_the_run(tmp_path: Path, processes: str) -> None:
    done = run_pytest(tmp_path, LEAVES_BEHIND, "-n", processes)
    assert done.returncode == 1, done.stdout + done.stderr
    said = [line for line in done.stdout.splitlines() if "test_that_leaves: " in line]
    (folder, process) = (line.partition("test_that_leaves: ")[2] for line in said)
    assert "left-over-" in folder
    assert process.endswith("sleep 600")
    assert not Path(folder).exists()
    os.kill(int(process.split()[1].rstrip(",")), signal.SIGKILL)


def run_pytest(
    folder: Path, test: str, *options: str, **env: str
) -> subprocess.CompletedProcess[str]:
    """A run of its own, which heeds what it leaves behind."""
    (folder / "conftest.py").write_text("from tests.conftest import pytest_configure")
    (folder / "test_it.py").write_text(test)
    run = [sys.executable, "-m", "pytest", "-p", "no:celery", f"--rootdir={folder}", *options]
    return subprocess.run(
        [*run, str(folder)],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | env,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


IGNORED = "import pathlib; print(pathlib.Path('/proc/self/status').read_text())"
"""What tells, among other things, which signals a process ignores."""


def test_children_ignore_no_signal_to_end(tmp_path: Path) -> None:
    """Whatever the run itself ignores."""
    (tmp_path / "telling.py").write_text(f"{IGNORED}\nimport celery; app = celery.Celery()")
    child = Process([sys.executable, "-c", IGNORED], tmp_path / "log", os.environ)
    child.wait()
    child.end()
    plain = subprocess.run(
        [sys.executable, "-c", IGNORED], capture_output=True, text=True, check=True
    )
    forked = run_celery(["-A", "telling", "report"], tmp_path, os.environ)

    assert [ignored(told) for told in (child.log(), plain.stdout, forked.stdout)] == [set()] * 3


def ignored(status: str) -> set[signal.Signals]:
    (mask,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:"))
    return {number for number in ENDING if int(mask, 16) >> (number - 1) & 1}


IN_THE_BACKGROUND = """
import os
import signal
from tests.processes import ENDING
from tests.test_harness import test_children_ignore_no_signal_to_end

def test_the_run_goes_on_ignoring_them(pytestconfig):
    for number in ENDING:
        os.kill(os.getpid(), number)
        os.kill(os.getppid(), number)
"""


@pytest.mark.wide
def test_a_run_in_the_background(tmp_path: Path) -> None:
    """Under nohup, or a CI server: it goes on when it is asked to end, and its children end."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import _children_hear_signals")
    (tmp_path / "test_background.py").write_text(IN_THE_BACKGROUND)
    names = " ".join(str(int(number)) for number in ENDING)
    run = ["-m", "pytest", "-q", "-n", "1", "-p", "no:celery", f"--rootdir={tmp_path}", tmp_path]
    done = subprocess.run(
        ["sh", "-c", f'trap "" {names}; exec "$@"', "sh", sys.executable, *map(str, run)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def alive(pid: int) -> bool:
    """A zombie that nobody waits for is as dead as it will get."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
