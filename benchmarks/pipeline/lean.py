"""What ingest comes to, as one would write it who trusts the log: the yardstick of what it costs.

Events, each once, and the same three tables of them; nothing for lines that are torn, no
quarantine, no files of which it knows that they were read, and nothing to add the next day's to.
Once on Spark, and once on DuckDB.
"""

from pathlib import Path
from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from celery_fair.eventlog.records import FIELDS, KINDS
from celery_fair.pipeline.bronze import MICROSECONDS, SCHEMA

__all__ = ["on_duckdb", "on_spark"]

IDENTITY = ("node", "pid", "boot", "seq")
STARTED = ("at", "task", "queue", "key", "published", "received", "redelivered", "repeatable")
STARTED += ("node", "pid", "boot", "cost_key", "cost")
FINISHED = ("at", "state", "runtime", "exception")
REJECTED = ("at", "queue", "reason", "may_have_started")
WORKER = ("node", "pid", "boot")


def on_spark(spark: Any, logs: Path, out: Path) -> None:
    """Make the tables below `out`, as Parquet."""
    read = spark.read.option("recursiveFileLookup", True).schema(SCHEMA)
    lines = read.json(str(logs), pathGlobFilter="*.jsonl")
    seconds = {name: F.col(name) / 1e6 for name in MICROSECONDS}
    found = lines.withColumns(seconds).dropDuplicates(list(IDENTITY))
    found.write.parquet(str(out / "events"))
    events = spark.read.schema(found.schema).parquet(str(out / "events"))
    made = {"attempts": _attempts, "backlog": _backlog, "processes": _processes}
    for name, make in made.items():
        make(events).write.parquet(str(out / name))


def _attempts(events: Any) -> Any:
    def of(kind: str, names: tuple[str, ...], best: Any) -> Any:
        return best(F.struct(*names), F.when(F.col("kind") == kind, F.col("at"))).alias(kind)

    counts = [
        F.count_if(F.col("kind") == kind).alias(name)
        for kind, name in (
            ("started", "starts"),
            ("finished", "finishes"),
            ("rejected", "rejections"),
        )
    ]
    return (
        events.where("kind in ('started', 'finished', 'rejected') and id is not null")
        .groupBy("id", "retries")
        .agg(
            *counts,
            of("started", STARTED, F.min_by),
            of("finished", FINISHED, F.max_by),
            of("rejected", REJECTED, F.max_by),
        )
        .withColumn("wait", F.col("started.at") - F.col("started.published"))
    )


def _backlog(events: Any) -> Any:
    said = events.where("kind = 'queue'")
    by_queue = Window.partitionBy(*WORKER, "queue").orderBy("at", "seq")
    return said.select(
        *WORKER,
        "queue",
        "state",
        "quantum",
        "level",
        "depth",
        F.coalesce("since", "at").alias("since"),
        F.lead("at").over(by_queue).alias("until"),
    )


def _processes(events: Any) -> Any:
    def last(name: str) -> Any:
        return F.max_by(name, F.when(F.col(name).isNotNull(), F.col("at"))).alias(name)

    return events.groupBy(*WORKER).agg(
        F.min("at").alias("first_at"),
        F.max("at").alias("last_at"),
        F.count("seq").alias("records"),
        (F.max("seq") + 1 - F.count("seq")).alias("missing"),
        F.max("dropped").alias("dropped"),
        *map(last, ("parent", "concurrency", "pool", "heartbeat", "quanta")),
        F.max(F.when(F.col("state").isin("exit", "dead"), F.col("at"))).alias("ended_at"),
    )


def on_duckdb(asked: Any, logs: Path, out: Path) -> None:
    """Make the tables below `out`, as Parquet."""
    out.mkdir(parents=True)
    for name, question in _questions(logs).items():
        asked.execute(f"CREATE OR REPLACE TABLE {name} AS {question}")
        asked.execute(f"COPY {name} TO '{out / name}.parquet' (FORMAT parquet)")


def _questions(logs: Path) -> dict[str, str]:
    types = {"string": "VARCHAR", "long": "BIGINT", "double": "DOUBLE", "boolean": "BOOLEAN"}
    types |= {"map<string,double>": "MAP(VARCHAR, DOUBLE)", "microseconds": "DOUBLE"}
    columns = {
        name: types[kind]
        for fields in (FIELDS, *KINDS.values())
        for name, (kind, _) in fields.items()
    }
    told = ", ".join(f"'{name}': '{kind}'" for name, kind in columns.items())
    seconds = ", ".join(f'("{name}" / 1e6) AS "{name}"' for name in MICROSECONDS)
    worker = ", ".join(WORKER)
    started, finished, rejected = (
        ", ".join(f"'{name}': \"{name}\"" for name in names)
        for names in (STARTED, FINISHED, REJECTED)
    )
    last = ", ".join(
        f'arg_max({name}, "at") FILTER ({name} IS NOT NULL) AS {name}'
        for name in ("parent", "concurrency", "pool", "heartbeat", "quanta")
    )
    return {
        "events": f"""
            SELECT * REPLACE ({seconds}) FROM (
                SELECT DISTINCT ON ({", ".join(IDENTITY)}) read.*
                FROM read_json('{logs}/**/*.jsonl', format = 'newline_delimited',
                               columns = {{{told}}}) AS read)""",
        "attempts": f"""
            SELECT id, retries, count(*) FILTER (kind = 'started') AS starts,
                count(*) FILTER (kind = 'finished') AS finishes,
                count(*) FILTER (kind = 'rejected') AS rejections,
                arg_min({{{started}}}, "at") FILTER (kind = 'started') AS started,
                arg_max({{{finished}}}, "at") FILTER (kind = 'finished') AS finished,
                arg_max({{{rejected}}}, "at") FILTER (kind = 'rejected') AS rejected
            FROM events WHERE kind IN ('started', 'finished', 'rejected') AND id IS NOT NULL
            GROUP BY id, retries""",
        "backlog": f"""
            SELECT {worker}, queue, state, quantum, level, depth, coalesce(since, "at") AS since,
                lead("at") OVER (PARTITION BY {worker}, queue ORDER BY "at", seq) AS until
            FROM events WHERE kind = 'queue'""",
        "processes": f"""
            SELECT {worker}, min("at") AS first_at, max("at") AS last_at, count(seq) AS records,
                max(seq) + 1 - count(seq) AS missing, max(dropped) AS dropped, {last},
                max("at") FILTER (state IN ('exit', 'dead')) AS ended_at
            FROM events GROUP BY {worker}""",
    }
