"""Whole runs, as a user starts them: on the in-memory broker and on real ones."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pytest

from celery_fair.cli.demo.order import FOLDER_VARIABLE, Order
from celery_fair.cli.demo.waits.scenario import Scenario
from tests.brokers import Space
from tests.demo.demonstration import run_demo, start_demo
from tests.preloaded import PreloadedCelery
from tests.processes import Process
from tests.waiting import wait_for

pytestmark = pytest.mark.either_broker

SMALL = ("--shares", "--messages", "200")


# Waits --------------------------------------------------------------------


def test_waits_are_shorter(tmp_path: Path) -> None:
    done = run_demo(tmp_path, "--json", "--seconds", "1.5", "--html", "plot.html")
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert (report["broker"], report["pool"], report["concurrency"]) == ("memory://", "threads", 2)
    celery, fair = (check_waits(run, 10) for run in report["runs"])
    assert fair[0] < celery[0] / 2  # alike workers would wait alike
    behind, ahead = map(overtaken, report["runs"])
    assert behind > 2  # Celery's own has fetched eight tasks ahead, and has two slots
    assert ahead <= 1
    assert re.findall(r"([\d.]+) s", report["sentence"]) == [
        f"{figure:.2f}" for figure in (*celery, *fair)
    ]
    assert [run["worker"] for run in report["runs"]] == ["Celery's own worker", "a fair worker"]
    text = (tmp_path / "plot.html").read_text()
    assert text.count("<svg") == 2
    assert text.count('class="mail"') == 20
    assert [path.name for path in tmp_path.iterdir()] == ["plot.html"]


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
    done = run_demo(tmp_path, "--no-html", "--seconds", "1", "--broker", space.url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", done.stdout)
    assert "password mails: 6 published" in done.stdout
    assert "guest:guest" not in done.stdout
    assert space.depths() == before


# Shares -------------------------------------------------------------------


@pytest.mark.wide
def test_memory(tmp_path: Path) -> None:
    done = run_demo(tmp_path, "--json", *SMALL)
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["fair"] is True
    assert (report["broker"], report["pool"], report["concurrency"]) == ("memory://", "solo", 1)
    assert [workload["work_us"] for workload in report["workloads"]] == [100, 1]
    assert [workload["source"]["table"] for workload in report["workloads"]] == [
        *("Table 1", "Table 2")
    ]
    for workload in report["workloads"]:
        check_figures(workload)
    assert report["html"] == str(tmp_path / "celery-fair-demo.html")
    assert Path(report["html"]).read_text().count("<svg") == 2


def check_figures(workload: dict[str, Any]) -> None:
    queues = workload["queues"]
    assert workload["fair"] is True
    assert (workload["published"], workload["started"]) == (2000, 1000)
    assert sum(queue["count"] for queue in queues) == 1000 - workload["left_out"]
    for column in ("share", "target"):
        assert sum(queue[column] for queue in queues) == pytest.approx(1)
    errors = [abs(queue["share"] / queue["target"] - 1) for queue in queues]
    assert workload["max_error"] == pytest.approx(max(errors))
    assert workload["ratio"] == pytest.approx(queues[9]["count"] / queues[0]["count"])
    assert workload["rate"] == pytest.approx(1000 / workload["seconds"])


def test_output_in_a_pipe(tmp_path: Path) -> None:
    done = run_demo(
        *(tmp_path, "--shares", "--messages", "50", "--stop", "200"),
        *("--work", "7", "--html", "plot.html"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", done.stdout)
    assert "started 200 of 200" in done.stdout
    assert "FAIR at 7 µs" in done.stdout
    assert f"Shares over time: {tmp_path / 'plot.html'}" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["plot.html"]


@pytest.mark.wide
@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_pools(pool: str, tmp_path: Path) -> None:
    options = ("--json", "--no-html", *SMALL, "--work", "1", "--pool", pool, "--concurrency", "2")
    done = run_demo(tmp_path, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["pool"] == pool
    assert list(tmp_path.iterdir()) == []


@pytest.mark.wide
def test_real_broker_is_left_as_it_was(space: Space, tmp_path: Path) -> None:
    before = space.depths()
    done = run_demo(tmp_path, "--json", "--no-html", *SMALL, "--work", "1", "--broker", space.url)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    check_figures(report["workloads"][0])
    assert "guest:guest" not in done.stdout
    assert space.depths() == before


# Ends ---------------------------------------------------------------------

LASTING = {
    "waits": ("--seconds", "60"),
    "shares": ("--shares", "--messages", "200", "--work", "10000"),
}


@pytest.fixture
def what() -> str:
    return "waits"


@pytest.fixture
def midway(space: Space, tmp_path: Path, what: str) -> Iterator[Process]:
    """A demo that is consuming, and has some seconds to go."""
    options = ("--no-html", *LASTING[what], "--broker", space.url)
    process = start_demo(tmp_path, *options)
    try:
        wait_for(lambda: "started" in process.log(), 30, process.log)
        yield process
    finally:
        process.end()


@pytest.mark.wide
@pytest.mark.parametrize(
    ("what", "number"),
    [("waits", signal.SIGINT), ("shares", signal.SIGTERM), ("waits", signal.SIGHUP)],
)
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
    work = asdict(Scenario(60, 1))
    Order(str(tmp_path), "memory://", "fair-demo-test.", work, False, None, gone.pid).write()
    orphan = PreloadedCelery(
        ["-A", "celery_fair.cli.demo.waits.tasks", "worker", "-P", "solo", "-c", "1"],
        tmp_path / "worker.log",
        os.environ | {FOLDER_VARIABLE: str(tmp_path)},
        cwd=tmp_path,
    )
    try:
        assert orphan.wait(20) == 0, orphan.log()
    finally:
        orphan.end()
    assert not (tmp_path / "order.json").exists()  # in which a broker's password may be


def test_worker_does_not_outlive_a_killed_demo(midway: Process) -> None:
    workers = psutil.Process(midway.pid).children(recursive=True)
    midway.kill()
    wait_for(lambda: not any(worker.is_running() for worker in workers), 20, "the worker's end")
