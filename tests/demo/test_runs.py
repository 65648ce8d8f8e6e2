"""Whole runs, as a user starts them: on the in-memory broker and on real ones."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pytest

from celery_fair.cli.demo.worker import ORDER_VARIABLE
from tests.brokers import Space
from tests.demo.demonstration import run_demo, start_demo
from tests.preloaded import PreloadedCelery
from tests.processes import Process
from tests.waiting import wait_for

pytestmark = pytest.mark.either_broker


# Results ------------------------------------------------------------------


def test_waits_are_shorter(tmp_path: Path) -> None:
    done = run_demo(tmp_path, "--json", "--seconds", "1.5")
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert (report["broker"], report["pool"], report["concurrency"]) == ("memory://", "threads", 2)
    celery, fair = (check_waits(run, 10) for run in report["runs"])
    assert fair[0] < celery[0] / 2
    behind, ahead = map(overtaken, report["runs"])
    assert behind > 2  # Celery's own has fetched eight tasks ahead, and has two slots
    assert ahead <= 1
    assert re.findall(r"([\d.]+) s", report["sentence"]) == [
        f"{figure:.2f}" for figure in (*celery, *fair)
    ]
    assert [run["worker"] for run in report["runs"]] == ["Celery's own worker", "a fair worker"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.wide
def test_a_target_in_place_of_quanta(tmp_path: Path) -> None:
    done = run_demo(tmp_path, "--json", "--seconds", "1.5", "--target", "95% < 0.5s")
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["target"] == "95% < 500ms"
    celery, fair = (check_waits(run, 10) for run in report["runs"])
    assert fair[0] < celery[0] / 2
    assert overtaken(report["runs"][1]) <= 1


def check_waits(run: dict[str, Any], mails: int) -> tuple[float, float]:
    """Compute median and 95 % quantile once more; return them."""
    messages = run["mails"]["messages"]
    assert len(messages) == run["mails"]["published"] == mails
    waits = sorted(each["started"] - each["published"] for each in messages)
    middle = (waits[(mails - 1) // 2] + waits[mails // 2]) / 2
    whole, part = divmod(0.95 * (mails - 1), 1)
    high = waits[int(whole)] + part * (waits[int(whole) + 1] - waits[int(whole)])
    figures = run["mails"]["median"], run["mails"]["quantile_95"]
    assert figures == pytest.approx((middle, high))
    assert waits[0] > 0
    newsletters = run["newsletters"]
    assert len(newsletters["messages"]) < newsletters["published"]  # a backlog, to the end
    return figures


def overtaken(run: dict[str, Any]) -> float:
    """How many newsletters start while a mail waits, in the median."""
    starts = [each["started"] for each in run["newsletters"]["messages"]]
    return median(
        sum(mail["published"] < start < mail["started"] for start in starts)
        for mail in run["mails"]["messages"]
    )


def test_waits_on_a_real_broker(space: Space, tmp_path: Path) -> None:
    before = space.depths()
    done = run_demo(tmp_path, "--seconds", "1", "--broker", space.url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", done.stdout)
    assert "password mails: 6 published" in done.stdout
    assert "guest:guest" not in done.stdout
    assert space.depths() == before


@pytest.mark.wide
@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_pools(pool: str, tmp_path: Path) -> None:
    done = run_demo(tmp_path, "--json", "--seconds", "1", "--pool", pool)
    assert done.returncode in {0, 1}, done.stdout + done.stderr  # in memory they may be alike
    assert json.loads(done.stdout)["pool"] == pool
    assert list(tmp_path.iterdir()) == []


# Ends ---------------------------------------------------------------------


@pytest.fixture
def midway(space: Space, tmp_path: Path) -> Iterator[Process]:
    """A demo that is consuming, and has some seconds to go."""
    process = start_demo(tmp_path, "--seconds", "60", "--broker", space.url)
    try:
        wait_for(lambda: "started" in process.log(), 60, process.log)
        yield process
    finally:
        process.end()


@pytest.mark.wide
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_demo_leaves_nothing(
    space: Space, midway: Process, number: signal.Signals
) -> None:
    workers = psutil.Process(midway.pid).children(recursive=True)
    assert workers
    assert space.ready()
    midway.send(number)
    assert midway.wait() == 130
    assert "Interrupted" in midway.log()
    assert not any(worker.is_running() for worker in workers)
    assert not space.ready()


def test_worker_ends_whose_command_was_gone_before_it_was_ready(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    trace = tmp_path / "trace"
    trace.touch()
    order = {"broker": "memory://", "prefix": "fair-demo-test.", "trace": str(trace)}
    told = {**order, "seconds": 60, "slots": 1, "fair": False, "command": gone.pid}
    orphan = PreloadedCelery(
        ["-A", "celery_fair.cli.demo.tasks", "worker", "-P", "solo", "-c", "1"],
        tmp_path / "worker.log",
        os.environ | {ORDER_VARIABLE: json.dumps(told)},
        cwd=tmp_path,
    )
    try:
        assert orphan.wait(60) == 0, orphan.log()
    finally:
        orphan.end()


def test_worker_does_not_outlive_a_killed_demo(midway: Process) -> None:
    workers = psutil.Process(midway.pid).children(recursive=True)
    midway.kill()
    wait_for(lambda: not any(worker.is_running() for worker in workers), 60, "the worker's end")
