"""What-if on a warehouse: what is supposed, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from pyspark.sql.functions import col

from celery_fair.cli import fair
from celery_fair.pipeline.replay.fanout import replay
from celery_fair.pipeline.replay.line import Message
from celery_fair.pipeline.replay.machine import Machine
from celery_fair.pipeline.replay.scenario import Plan, Scenario
from tests.pipeline.planted import Logs, Process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(*words: object) -> Result:
    return CliRunner().invoke(fair, ["pipeline", *map(str, words)], catch_exceptions=False)


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of one worker with one slot: bulk, partly acme's, is there from the beginning, then mail."""
    logs = Logs(tmp_path_factory.mktemp("logs"))
    worker = Process().boots(0)
    for number in range(10):
        key = {"key": "acme/42"} if number % 2 else {}
        worker.runs(f"b{number}", 1.0 + number, published=0.5, queue="bulk", **key)
    worker.runs("m", 11.0, published=5.2, queue="mail")
    logs.plant(worker)
    made = tmp_path_factory.mktemp("made") / "warehouse"
    assert run("ingest", logs.folder, made, "--quiet").exit_code == 0
    return made


def test_what_is_supposed_beside_what_was(warehouse: Path) -> None:
    supposed = (
        "--scenario",
        "slow: bulk.quantum=100",
        "--scenario",
        "wide: bulk.quantum=100 concurrency=20",
        "--scenario",
        "first: bulk.quantum=100 mail.class=1",
        "--scenario",
        "aimed: bulk.quantum=100 mail.target=95%<2s",
    )
    found = json.loads(run("whatif", warehouse, *supposed, "--json", "--quiet").stdout)
    waits = {(row["scenario"], row["queue"]): row["longest"] for row in found}
    assert waits["slow", "mail"] > waits["first", "mail"] > waits["wide", "mail"]
    assert waits["wide", "bulk"] < 0.5
    assert {row["started"] for row in found if row["queue"] == "bulk"} == {10}
    # In time for its own mail goes before bulk, though nothing else says so.
    assert waits["aimed", "mail"] <= 2.0 < waits["slow", "mail"]


@pytest.mark.parametrize(
    ("scenario", "says"),
    [
        ("bulkk.quantum=2", "no message of queue 'bulkk'; what there is, is shown by"),
        ("bulk[acne].weight=2", "key 'acne' in queue 'bulk'"),
        ("mail[acme].weight=2", "key 'acme' in queue 'mail'"),
    ],
)
def test_a_scenario_about_what_the_trace_lacks_is_refused(
    warehouse: Path, scenario: str, says: str
) -> None:
    refused = run("whatif", warehouse, "--scenario", scenario, "--quiet")
    assert refused.exit_code == 2
    assert says in refused.stderr


def test_a_scenario_may_be_about_what_comes_late_and_about_all_keys(warehouse: Path) -> None:
    supposed = ("--scenario", "x: mail.rate=2/s bulk[*].weight=2 concurrency=2", "--quiet")
    assert run("whatif", warehouse, *supposed).exit_code == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("--scenario", "a: concurrency=2", "--scenario", "a: concurrency=3"),
            "two scenarios have one name",
        ),
        (("--scenario", "a: mail.target=soon"), "a target is written like '95%<0.5s'"),
    ],
)
def test_wrong_words(words: tuple[str, ...], says: str) -> None:
    refused = run("whatif", "nowhere", *words)
    assert refused.exit_code == 2
    assert says in refused.stderr


def test_fanned_out_is_as_run_alone(spark: SparkSession) -> None:
    messages = sorted(
        Message(float(n % 37), "ab"[n % 2], "t", "k", 0.25 * (n % 5), "acme", 0.01, 0.0)
        for n in range(200)
    )
    trace = spark.createDataFrame(messages)
    base = Scenario("base", concurrency=2, cost="runtime")
    shared = Scenario("shared", concurrency=2, queues={"a": Plan(quantum=9.0)})
    scenarios = [base, shared, Scenario("leashed", queues={"a": Plan(rate=2.0, burst=5)})]
    found = {
        (row["scenario"], row["queue"]): (row["started"], row["p95"], row["longest"])
        for row in replay(trace, scenarios).collect()
    }
    ordered = trace.orderBy(col("published"), "queue", "runtime").collect()
    again = [Message(*(row[name] for name in Message._fields)) for row in ordered]
    waits: dict[tuple[str, str], list[float]] = {}
    for each in scenarios:
        for message, at in Machine(each).run(again):
            waits.setdefault((each.name, message.queue), []).append(at - message.published)
    assert found == {
        whose: (100, sorted(waited)[94], max(waited)) for whose, waited in waits.items()
    }
