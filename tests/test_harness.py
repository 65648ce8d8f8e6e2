"""The parts of the harness that could mislead every other test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests import shares
from tests.apps.recorder import Record
from tests.brokers import RedisServer, missing
from tests.processes import ROOT
from tests.waiting import wait_for


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
    wait_for(lambda: not alive(int(pid)), 10, "the broker's end")
    wait_for(lambda: not Path(folder).exists(), 10, "the folder's removal")
    assert redis_server.client.ping()


def alive(pid: int) -> bool:
    """A zombie that nobody waits for is as dead as it will get."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
