"""The streaming query: from log files to one folder of alerts for each batch that has any.

Before Spark works on a batch it writes down which files the batch has and when it began;
afterwards, what it remembers. A run that was killed does its last batch again, with the same files,
the same time and the same memory, and so with the same alerts, into the same folder. So no alert is
lost, and none is there twice.

An event says something about one subject or several:

start     an attempt at a task, by id and retries
queue     a queue at a worker
leash     a queue that has a leash, at a node
process   a process
"""

import json
import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from celery_fair.pipeline.bronze import batch_of, parsed, rows_of
from celery_fair.pipeline.log_files import unglobbed
from celery_fair.pipeline.stream.watches import Event, Limits, watch

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.state import GroupState

_PAUSE = 0.2
PARTITIONS = 4
"""Parts of what is remembered; a checkpoint keeps the number that it was made with."""
SCHEMA = "alert string, key string, at double, text string"


def alerts(events: DataFrame, limits: Limits) -> DataFrame:
    """Events, each perhaps more than once, as alerts."""
    text = json.dumps(asdict(limits))

    def watched(
        key: tuple[str, str], batches: Iterator["pd.DataFrame"], state: "GroupState"
    ) -> Iterator["pd.DataFrame"]:
        return _watched(key, batches, state, Limits(**json.loads(text)))

    grouped = _subjects(events, limits.leashes).groupBy("about", "key")
    return grouped.applyInPandasWithState(
        watched, SCHEMA, "state string", "append", "ProcessingTimeTimeout"
    )


def _subjects(events: DataFrame, leashed: Collection[str]) -> DataFrame:
    """One row per event and subject.

    Arguments:
        leashed: queues whose starts are to be counted.
    """
    started = (F.col("kind") == "started") & F.col("id").isNotNull()
    worker = F.concat_ws(":", "node", "pid", "boot")
    concerned = F.array(
        _when(started, "start", F.concat_ws("/", "id", F.coalesce("retries", F.lit(0)))),
        _when(F.col("kind") == "queue", "queue", F.concat_ws(":", worker, "queue")),
        _when(started & F.col("queue").isin(*leashed), "leash", F.concat_ws(":", "node", "queue")),
        _when(F.col("kind") == "process", "process", worker),
    )
    return events.withColumn("subject", F.explode(F.array_compact(concerned))).select(
        F.col("subject.about").alias("about"),
        F.col("subject.key").alias("key"),
        F.concat_ws(":", worker, F.coalesce(F.col("seq").cast("string"), "state")).alias(
            "event_id"
        ),
        "at",
        "node",
        "queue",
        "task",
        "state",
        F.coalesce("depth", F.lit(0)).alias("depth"),
        F.coalesce("heartbeat", F.lit(0.0)).alias("heartbeat"),
    )


def _when(condition: Column, about: str, key: Column) -> Column:
    return F.when(condition, F.struct(F.lit(about).alias("about"), key.alias("key")))


def _watched(
    key: tuple[str, str], batches: Iterator["pd.DataFrame"], state: "GroupState", limits: Limits
) -> Iterator["pd.DataFrame"]:
    about, name = key
    given = [] if state.hasTimedOut else batches
    news = [Event(*row) for batch in given for row in rows_of(batch, Event._fields)]
    before = json.loads(state.get[0]) if state.exists else None
    found, memory = watch(about, name, before, news, limits)
    if memory.state is None:
        if state.exists:
            state.remove()
    else:
        state.update((json.dumps(memory.state),))
        if memory.seconds is not None:
            state.setTimeoutDuration(max(1, int(memory.seconds * 1000)))
    if found:
        yield batch_of(found, SCHEMA)


def start_alerts(
    spark: SparkSession,
    logs: Path,
    out: Path,
    limits: Limits,
    every: float = 10.0,
    tell: Callable[[dict[str, Any]], object] = lambda alert: None,
) -> "StreamingQuery":
    """Start the query; it carries on where the previous one with the same `out` stopped.

    Arguments:
        every: seconds between two looks at the folder.
        tell: is called for each alert, when it has been written; again for those of a batch that
            was not known to be finished.
    """
    spark.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    reader = spark.readStream.option("recursiveFileLookup", True).option("lineSep", "\n")
    lines = reader.option("pathGlobFilter", "*.jsonl").text(unglobbed(str(logs.absolute())))
    records = parsed(lines.withColumn("file", F.lit(""))).where("wrong is null")
    found = alerts(records, limits)

    def write(rows: DataFrame, batch: int) -> None:
        _write(rows, out / f"batch={batch:09d}", tell)

    writer = found.writeStream.foreachBatch(write).queryName("celery-fair alerts")
    writer = writer.option("checkpointLocation", str(out.absolute() / "_checkpoint"))
    return writer.trigger(processingTime=f"{every} seconds").start()


def follow(query: "StreamingQuery", stop: Callable[[], bool] = lambda: False) -> None:
    """Wait for the query's end; stop it when it is to.

    Nobody may interrupt a question to Java: the next one might wait for the answer to that.
    """
    while not query.awaitTermination(_PAUSE):  # type: ignore[arg-type] # it takes fractions
        if stop():
            query.stop()


def has_read_all(query: "StreamingQuery") -> bool:
    """Whether the query has read everything that is there.

    Spark's own trigger for that, `availableNow`, never ends where timeouts may come.
    """
    progress = query.lastProgress
    return progress is not None and progress["numInputRows"] == 0


def _write(rows: DataFrame, folder: Path, tell: Callable[[dict[str, Any]], object]) -> None:
    rows.write.mode("overwrite").json(str(folder.absolute()))
    written = list(_lines(folder))
    if not written:
        shutil.rmtree(folder)
    for alert in written:
        tell(alert)


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.json")):
        with path.open() as file:
            yield from map(json.loads, file)
