"""The streaming query: killed, restarted, fed twice; each alert is there once."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from celery_fair.cli import fair
from celery_fair.pipeline.stream.alerts import follow, has_read_all, start_alerts
from celery_fair.pipeline.stream.watches import Limits
from tests.pipeline.planted import Logs, Process
from tests.processes import children_hear_signals
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMITS = Limits(leashes={"q": (1.0, 2.0)})


def worker(node: str, *ids: str) -> Process:
    process = Process(node=node).boots(0)
    for number, name in enumerate(ids):
        process.runs(name, 10.0 * number)
    process.ends(100)
    return process


def read_alerts(out: Path) -> list[dict[str, Any]]:
    paths = sorted(out.glob("batch=*/*.json"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def counted(out: Path) -> Counter[tuple[str, str]]:
    return Counter((alert["alert"], alert["key"]) for alert in read_alerts(out))


def run_once(spark: SparkSession, logs: Logs, out: Path) -> None:
    query = start_alerts(spark, logs.folder, out, LIMITS, every=0)
    follow(query, lambda: has_read_all(query))


@pytest.mark.wide
def test_restarted_after_kill(spark: SparkSession, logs: Logs, tmp_path: Path) -> None:
    out = tmp_path / "alerts"
    logs.plant(worker("celery@a", "x", "y", "x"))
    command = ["pipeline", "stream", logs.folder, out, "--every", "0.5", "--master", "local[1]"]
    running = subprocess.Popen(
        [sys.executable, "-m", "celery_fair", *command, "--leash", "q=1/s:2"],
        start_new_session=True,
        env=os.environ | {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: counted(out), 90, "the first alert")
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    expected = Counter({("duplicate-start", "x/0"): 1})
    assert counted(out) == expected

    # What was remembered is remembered still: y was started before the kill. Copies say nothing.
    (again,) = logs.plant(worker("celery@b", "y", "z"))
    (logs.folder / "copy.jsonl").write_bytes(again.read_bytes())
    fast = Process(node="celery@c").boots(0)
    for number in range(4):
        fast.runs(f"fast{number}", 5 + number / 10)
    fast.says("q", "empty", 10, depth=9)
    fast.says("q", "ready", 50)
    fast.ends(100)
    logs.plant(fast)
    logs.write("garbage.jsonl", ["no json"], torn='{"v": 1')
    run_once(spark, logs, out)
    starved = f"celery@c:{fast.pid}:{fast.boot}:q"
    expected += Counter(
        {
            ("duplicate-start", "y/0"): 1,
            ("leash-breach", "celery@c:q"): 1,
            ("starvation", starved): 1,
        }
    )
    assert counted(out) == expected

    # As if killed after the alerts were written, and before that was written down.
    commits = out / "_checkpoint" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for path in (commits / str(last), commits / f".{last}.crc"):
        path.unlink(missing_ok=True)
    run_once(spark, logs, out)
    assert counted(out) == expected


def test_an_interrupt_ends_it(logs: Logs, tmp_path: Path) -> None:
    """And says nothing else: not what Java was being asked for."""
    logs.plant(worker("celery@a", "x"), worker("celery@b", "x"))
    command = ["pipeline", "stream", logs.folder, tmp_path / "alerts", "--every", "0.5"]
    said = tmp_path / "said"
    with children_hear_signals(), said.open("w") as file:
        running = subprocess.Popen(
            [sys.executable, "-m", "celery_fair", *command],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=file,
        )
    try:
        wait_for(lambda: "watching" in said.read_text(), 90, said.read_text)
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does
        assert running.wait(60) == 0
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    words = said.read_text()
    assert words.splitlines()[-1].startswith("ended; the next run with")
    assert "Traceback" not in words
    assert "ERROR" not in words


@pytest.mark.usefixtures("spark")
def test_what_breaks_off_in_a_batch_is_told_once() -> None:
    """By an error, and not by Py4J's log as well, with Python's stack and Java's."""
    assert not logging.getLogger("py4j.clientserver").isEnabledFor(logging.ERROR)


@pytest.mark.usefixtures("spark")
def test_wrong_words(tmp_path: Path) -> None:
    def run(*words: object) -> str:
        return CliRunner().invoke(fair, ["pipeline", "stream", *map(str, words)]).stderr

    assert "is no folder" in run(tmp_path / "no", tmp_path / "out")
    out = tmp_path.with_name("out")
    assert "'10/s' is not QUEUE=RATE, such as" in run(tmp_path, out, "--leash", "10/s")
    assert "not 'fast'" in run(tmp_path, out, "--leash", "q=fast:1")
    for burst in ("0", "-5"):
        negative = run(tmp_path, out, "--leash", f"q=1/s:{burst}")
        assert "a burst is one message at least" in negative
    assert "no finite number" in run(tmp_path, out, "--leash", "q=1/s:nan")
    twice = run(tmp_path, out, "--leash", "q=1/s", "--leash", "q=2/s")
    assert "'q' has two leashes" in twice
    assert "is in the folder of the logs" in run(tmp_path, tmp_path / "alerts")
