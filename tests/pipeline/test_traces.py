"""Traces of other systems, and replays of them that Spark fans out."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyspark.sql.functions import lit

from celery_fair.cli import fair
from celery_fair.pipeline.errors import PipelineError, RefusedError
from celery_fair.pipeline.replay.fanout import replay
from celery_fair.pipeline.replay.machine import Machine, Message
from celery_fair.pipeline.replay.outcome import outcomes
from celery_fair.pipeline.replay.scenario import Plan, Scenario
from celery_fair.pipeline.traces.foreign import (
    READERS,
    Columns,
    parse_columns,
    table_trace,
)
from tests.documentation.page import blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parent / "data"
AZURE = str(DATA / "AzureLLMInferenceTrace_conv.csv")


def run(*words: object) -> Result:
    return CliRunner().invoke(fair, ["pipeline", *map(str, words)], catch_exceptions=False)


def public() -> tuple[str, ...]:
    """The words that name a public trace."""
    return AZURE, "--format", "csv", "--columns", "published=TIMESTAMP", "--runtime", RUNTIME


RUNTIME = "ContextTokens * 0.0002 + GeneratedTokens * 0.03"


def test_a_public_trace_as_it_is(spark: SparkSession) -> None:
    """Seven digits of a second; and a run time that is reckoned from tokens."""
    columns = parse_columns("published=TIMESTAMP", "", RUNTIME)
    rows = table_trace(spark, AZURE, "csv", columns).orderBy("published").collect()
    assert len(rows) == 200
    # 2023-11-16 18:15:46.6805900,374,44: 1700158546 is `date -u -d '2023-11-16 18:15:46' +%s`
    assert rows[0]["published"] == pytest.approx(1700158546.68059, abs=1e-6)
    assert rows[0]["runtime"] == pytest.approx(0.0748 + 1.32)


def test_csv(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(
        "when,how long,team\n1970-01-01 00:00:10,2.5,a\n20,1,\nnever,1,a\n30,unknown,a\n40,-1,a\n"
    )
    columns = parse_columns("published=when, runtime=how long,queue=team")
    rows = table_trace(spark, str(path), "csv", columns).orderBy("published").collect()
    found = [(row["published"], row["runtime"], row["queue"], row["task"]) for row in rows]
    assert found == [(10.0, 2.5, "a", "task"), (20.0, 1.0, "celery", "task")]
    path.write_text("a`t,`b.c`\n1,2\n")
    (row,) = table_trace(
        spark, str(path), "csv", Columns({"published": "a`t", "runtime": "`b.c`"})
    ).collect()
    assert (row["published"], row["runtime"]) == (1.0, 2.0)
    absent = Columns({"published": "no", "runtime": "no"})
    with pytest.raises(PipelineError, match="no column 'no'; it has a`t"):
        table_trace(spark, str(path), "csv", absent)


def test_a_table_of_each_kind(spark: SparkSession, tmp_path: Path) -> None:
    """The same jobs, with times in milliseconds, and run times that are reckoned."""
    made = {kind: tmp_path / f"jobs.{kind}" for kind in READERS}
    jobs = spark.createDataFrame(
        [(1500, 100, 20, "acme", 7), (2500, 200, None, None, 8)],
        "at long, read long, written long, tenant string, number int",
    ).coalesce(1)
    jobs.write.csv(str(made["csv"]), header=True)
    jobs.write.json(str(made["jsonl"]))
    jobs.write.parquet(str(made["parquet"]))
    columns = parse_columns(
        "published=at,key=tenant,id=number",
        "published=ms,runtime=ms",
        "read * 0.2 + coalesce(written, 0) * 30",
    )
    for kind, path in made.items():
        rows = table_trace(spark, str(path), kind, columns).orderBy("published").collect()
        found = [(row["id"], row["published"], row["runtime"], row["key"]) for row in rows]
        assert found == [("7", 1.5, 0.62, "acme"), ("8", 2.5, 0.04, None)]
    wrong = parse_columns("published=at", "", "reed * 2")
    with pytest.raises(PipelineError, match="is no expression in the columns"):
        table_trace(spark, str(made["csv"]), "csv", wrong)


def test_what_is_no_table(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "jobs"
    path.write_text('{"at": 1, "took": 2}\ngarbage {\n')
    columns = parse_columns("published=at,runtime=took")
    told: list[str] = []
    assert table_trace(spark, str(path), "jsonl", columns, told.append).count() == 1
    assert told == ["1 of 2 rows left out: 'garbage {' in a line is no JSON object"]
    path.write_text("at;took\n1;2\n")
    with pytest.raises(RefusedError, match="separator seems to be ';', and has to be a comma"):
        table_trace(spark, str(path), "csv", columns)
    path.write_text("")
    with pytest.raises(RefusedError, match="no column 'at'; it has none"):
        table_trace(spark, str(path), "csv", columns)


def test_times_in_nanoseconds(spark: SparkSession, tmp_path: Path) -> None:
    """As pandas writes them; Spark reads them as numbers, if it is told to."""
    path = tmp_path / "jobs.parquet"
    at = pa.array([1_500_000_000], pa.timestamp("ns"))
    pq.write_table(pa.table({"at": at, "took": [2.0]}), path, version="2.6")
    columns = parse_columns("published=at,runtime=took", "published=ns")
    with pytest.raises(RefusedError, match=r"nanosAsLong=true --units published=ns$"):
        table_trace(spark, str(path), "parquet", columns)
    spark.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    try:
        [row] = table_trace(spark, str(path), "parquet", columns).collect()
    finally:
        spark.conf.unset("spark.sql.legacy.parquet.nanosAsLong")
    assert row["published"] == 1.5


def test_times_of_each_type(spark: SparkSession, tmp_path: Path) -> None:
    jobs = spark.sql(
        "select timestamp_seconds(10) as a, to_timestamp_ntz('1970-01-01 00:00:10') as b,"
        " '1970-01-01 00:00:10' as c, 10.0d as d, 10 as e, '10' as f, 1 as took"
    )
    jobs.write.parquet(str(tmp_path / "jobs"))
    for name in "abcdef":
        columns = parse_columns(f"published={name},runtime=took")
        [row] = table_trace(spark, str(tmp_path / "jobs"), "parquet", columns).collect()
        assert row["published"] == 10.0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("published=a", "say which column is runtime"),
        ("published", "'published' is not FIELD=COLUMN"),
        ("colour=a", "'colour=a' is not FIELD=COLUMN"),
    ],
)
def test_wrong_columns(text: str, says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        parse_columns(text)


def test_wrong_units_and_two_run_times() -> None:
    with pytest.raises(PipelineError, match="'days' is none of s, ms"):
        parse_columns("published=a,runtime=b", "published=days")
    with pytest.raises(PipelineError, match="'queue=s' is not FIELD=UNIT"):
        parse_columns("published=a,runtime=b", "queue=s")
    with pytest.raises(PipelineError, match="leave one out"):
        parse_columns("published=a,runtime=b", "", "b * 2")


@pytest.mark.wide
def test_fanned_out_is_as_run_alone(spark: SparkSession) -> None:
    columns = parse_columns("published=TIMESTAMP", "", RUNTIME)
    conv, code = (
        table_trace(spark, AZURE.replace("conv", name), "csv", columns).withColumn(
            "queue", lit(name)
        )
        for name in ("conv", "code")
    )
    trace = conv.unionByName(code)
    base = Scenario("base", concurrency=8, cost="runtime")
    scenarios = [base, Scenario("shared", concurrency=8, queues={"code": Plan(quantum=9.0)})]
    scenarios.append(Scenario("leashed", concurrency=8, queues={"code": Plan(rate=2.0, burst=5)}))
    found = {
        (row["scenario"], row["queue"]): tuple(row) for row in replay(trace, scenarios).collect()
    }
    rows = trace.orderBy("published", "queue", "runtime").collect()
    fields = Message._fields[:5]
    messages = [Message(*(row[name] for name in fields)) for row in rows]
    expected = {
        (scenario.name, queue): outcome.row(scenario.name, queue)
        for scenario in scenarios
        for (queue, _), outcome in outcomes(Machine(scenario).run(messages)).items()
    }
    assert found == expected
    assert len(found) == 6


@pytest.mark.wide
@pytest.mark.usefixtures("spark")
def test_whatif_and_advise() -> None:
    trace = public()
    supposed = ("--scenario", "wide: concurrency=64", "--base", "concurrency=2", "--json")
    rows = {row["scenario"]: row for row in json.loads(run("whatif", *trace, *supposed).stdout)}
    assert rows["recorded"]["started"] == rows["wide"]["started"] == 200
    assert rows["recorded"]["p95"] > 1.0
    assert rows["wide"]["p95"] == 0.0

    target = ("--slo", "celery=p95:1s", "--base", "concurrency=8", "--quiet")
    shown = run("advise", *trace, *target)
    assert "nor can strict priority, with 8 slots" in shown.stdout
    again = run("advise", *trace, *target, "--json")
    found: dict[str, Any] = json.loads(again.stdout)
    assert found["means"] == "slots"
    assert found["concurrency"] > 8
    [proof], [held_out] = found["proof"], found["held_out"]
    assert proof["p95"] <= proof["p95_bound"] <= 1.0
    assert proof["started"] + held_out["started"] == 200
    assert found["kept"] == (held_out["p95"] <= 1.0)
    assert shown.exit_code == again.exit_code == (0 if found["kept"] else 1)
    assert ("not kept" in shown.stdout) == (not found["kept"])


def jobs(path: Path, *rows: str) -> tuple[object, ...]:
    """Write a table of jobs; return the words that name it."""
    path.write_text("\n".join(("at,took,team", *rows, "")))
    return path, "--format", "csv", "--columns", "published=at,runtime=took,queue=team", "--quiet"


@pytest.mark.usefixtures("spark")
def test_a_target_is_kept_only_where_it_was_checked(tmp_path: Path) -> None:
    """On a part of the trace without messages of its queue, nothing was."""
    rows = [f"{at},0.1,steady" for at in range(0, 100, 5)]
    table = jobs(tmp_path / "jobs.csv", *rows, "1,0.1,early", "99,0.1,late")
    wide = ("--base", "concurrency=4")
    early = run("advise", *table, *wide, "--slo", "early=p50:1m", "--slo", "steady=p50:1m")
    assert early.exit_code == 1
    assert "not checked: early, without a message in the part that was held out" in early.stdout
    assert "\nkept" not in early.stdout
    found = json.loads(run("advise", *table, *wide, "--slo", "early=p50:1m", "--json").stdout)
    assert (found["means"], found["kept"]) == ("nothing", None)
    late = run("advise", *table, *wide, "--slo", "late=p50:1m")
    assert late.exit_code == 2
    assert "'late' has no message in the first part of the trace" in late.stderr
    every = run("advise", *table, *wide, "--slo", "late=p50:1m", "--held-out", "0")
    assert every.exit_code == 0
    assert "kept" not in every.stdout


@pytest.mark.usefixtures("spark")
def test_a_time_without_messages_is_told(tmp_path: Path) -> None:
    table = jobs(tmp_path / "jobs.csv", "10,1,a", "20,1,a")
    for command in (("whatif", *table), ("advise", *table, "--slo", "a=p95:1s")):
        none = run(*command, "--since", "30", "--until", "40.5")
        assert none.exit_code == 1
        assert "no message was published at 30 or later and before 40.5" in none.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--slo", "a=p95:1.2.3s"), "'a=p95:1.2.3s' is not of the form"),
        (("--slo", "a=p95:1s", "--slo", "a=p95:2s"), "p95 of 'a' has more than one target"),
        (
            ("--slo", "a=p95:1s", "--since", "5", "--until", "4"),
            "--since 5 is not before --until 4, and so no message",
        ),
    ],
)
def test_wrong_targets_and_times(words: tuple[str, ...], says: str) -> None:
    refused = run("advise", "warehouse", *words)
    assert refused.exit_code == 2
    assert says in refused.stderr


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("scenario", "says"),
    [
        ("x: bulkk.quantum=2", "no message of queue 'bulkk'; did you mean 'bulk'?"),
        ("x: zzz.class=1", "no message of queue 'zzz'; there are 'bulk', 'mail'"),
        (
            "x: bulk[acne].weight=2",
            "key 'acne' in queue 'bulk'; did you mean 'acme'?",
        ),
        (
            "x: mail[acme].weight=2",
            "key 'acme' in queue 'mail'; none there has a key",
        ),
    ],
)
def test_a_scenario_about_what_the_trace_lacks_is_refused(
    tmp_path: Path, scenario: str, says: str
) -> None:
    path, *words = jobs(tmp_path / "jobs.csv", "1,1,bulk", "2,1,bulk", "9,1,mail")
    assert isinstance(path, Path)
    path.write_text("at,took,team,who\n1,1,bulk,\n2,1,bulk,acme/42\n9,1,mail,\n")
    words[words.index("--columns") + 1] = "published=at,runtime=took,queue=team,key=who"
    for option in ("--scenario", "--base"):
        refused = run("whatif", path, *words, option, scenario.removeprefix("x: "))
        assert refused.exit_code == 2
        assert says in refused.stderr


@pytest.mark.usefixtures("spark")
def test_a_scenario_may_be_about_what_comes_late_and_about_all_keys(tmp_path: Path) -> None:
    table = jobs(tmp_path / "jobs.csv", "1,1,bulk", "900,1,mail")
    supposed = ("--scenario", "x: mail.paused=1..2 bulk[*].weight=2 concurrency=2")
    assert run("whatif", *table, *supposed).exit_code == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--columns", "published=a"), "--columns is for --format csv or jsonl or parquet"),
        (("--runtime", "a"), "--runtime is for --format csv"),
    ],
)
def test_options_of_another_format_are_refused(words: tuple[str, ...], says: str) -> None:
    refused = run("whatif", "warehouse", *words)
    assert refused.exit_code == 2
    assert says in refused.stderr


@pytest.mark.usefixtures("spark")
def test_a_trace_is_read_whatever_its_name(tmp_path: Path) -> None:
    table = jobs(tmp_path / "jobs[1] {a,b} 100%.csv", "1,1,a")
    assert json.loads(run("whatif", *table, "--json").stdout)[0]["started"] == 1


@pytest.mark.usefixtures("spark")
def test_a_trace_is_not_called_a_warehouse(tmp_path: Path) -> None:
    path, *_, columns, _ = jobs(tmp_path / "jobs.csv", "1,1,a")
    read = run("whatif", path, "--format", "parquet", "--columns", columns)
    assert read.exit_code == 1
    assert "jobs.csv is not a Parquet file" in read.stderr
    assert "warehouse" not in read.stderr
    forgotten = run("whatif", path, "--columns", columns)
    assert forgotten.exit_code == 2
    assert "jobs.csv is a file, and a warehouse is a folder: say with --format" in forgotten.stderr
    assert "starting Spark" not in forgotten.stderr


@pytest.mark.usefixtures("spark")
def test_rows_that_are_left_out_are_counted(tmp_path: Path) -> None:
    rows = ("02.03.2026 09:00,1,a", "5,1,a", "inf,1,a", "6,-1,a", "7,soon,a", "8,,a", ",1,a")
    table = jobs(tmp_path / "jobs.csv", *rows)
    some = run("whatif", *table, "--json")
    assert some.exit_code == 0
    assert [row["started"] for row in json.loads(some.stdout)] == [1]
    assert some.stderr.splitlines() == [
        "3 of 7 rows left out: '-1' in took is no run time",
        "3 of 7 rows left out: '02.03.2026 09:00' in at is no time",
    ]
    table = jobs(tmp_path / "jobs.csv", "02.03.2026 09:00,1,a")
    none = run("whatif", *table)
    assert none.exit_code == 1
    assert "nothing of the trace can be read: 1 of 1 rows left out: '02.03." in none.stderr


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("runtime", "says"),
    [
        ("took / 0", "the run time 'took / 0' fails: division by zero; write it so that"),
        ("sum(took)", "the run time 'sum(took)' is of all rows together: write one of each row"),
        (
            "reed",
            "the run time 'reed' is no expression in the columns of the trace (at,",
        ),
    ],
)
def test_a_run_time_that_cannot_be_reckoned_is_told(
    tmp_path: Path, runtime: str, says: str
) -> None:
    path, *_ = jobs(tmp_path / "jobs.csv", "5,1,a")
    words = ("--format", "csv", "--columns", "published=at", "--runtime", runtime)
    failed = run("whatif", path, *words)
    assert failed.exit_code == (1 if "fails" in says else 2)
    assert says in failed.stderr
    assert "spark.sql" not in failed.stderr


@pytest.mark.wide
@pytest.mark.usefixtures("spark")
def test_the_page_on_own_traces(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commands, on the files that it shows."""
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "how-to" / "what-if.md"
    found = list(blocks(page.read_text().partition("\n## A trace of your own\n")[2]))
    csv, jsonl = (block.text for block in found if block.language == "text")
    Path("jobs.csv").write_text(csv)
    Path("jobs.jsonl").write_text(jsonl)
    spark.read.json(str(tmp_path / "jobs.jsonl")).write.parquet(str(tmp_path / "jobs.parquet"))
    said = []
    for block in found:
        if block.language == "console":
            words = shlex.split(block.text.replace("\\\n", " ").removeprefix("$ "))
            said.append(run(*words[4:], "--json", "--quiet"))
    first, second, third = (json.loads(result.stdout) for result in said)
    assert [(row["scenario"], row["queue"], row["started"]) for row in first] == [
        (scenario, queue, 2)
        for queue in ("mail", "search")
        for scenario in ("recorded", "mail first")
    ]
    assert {(row["key"], row["started"]) for row in second} == {("acme", 2), ("zeta", 1)}
    seconds = {row["key"]: row["seconds"] for row in second}
    assert seconds == pytest.approx({"acme": 0.24 + 1.2 + 0.16 + 1.83, "zeta": 0.018 + 0.21})
    assert third["means"] == "nothing"


@pytest.mark.usefixtures("spark")
def test_wrong_words(tmp_path: Path) -> None:
    trace = public()
    assert "no queue 'x'; it has celery\n" in run("advise", *trace, "--slo", "x=p95:1s").stderr
    assert "'x=1s' is not of the form" in run("advise", *trace, "--slo", "x=1s").stderr
    assert "there is no" in run("whatif", tmp_path / "no", "--format", "csv").stderr
    assert "no table" in run("whatif", tmp_path).stderr
    twice = ("--scenario", "a: concurrency=2", "--scenario", "a: concurrency=3")
    assert "two scenarios have one name" in run("whatif", *trace, *twice).stderr
