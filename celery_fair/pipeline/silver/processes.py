"""Silver: one row per process, and whether its log is all there.

A process numbers its records from 0. It wrote at least ``max(seq) + 1``; those that are not here
are *missing*; *dropped* are those that it could not write, and lines of its files that are torn, or
otherwise no records. Its log is complete if there are none of either, and the log of its parent
process is here at all. What a process wrote after the last record that is here cannot be known, so
the log also says how the process ended:

ended    the log has its `exit`, or another process has found it `dead`
alive    its last record is no older than three heartbeats before the log's last record of all
silent   neither: it may be gone, or its file is not here yet

A child process without heartbeats of its own is alive as long as its parent is.

Its quanta are, queue by queue, the last that it reported; when it has ended it has no queues any
more.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

__all__ = ["BEATS", "SHARING", "lives", "processes", "processes_of"]

BEATS = 3
"""Heartbeats that may be missing before a process counts as silent."""

SHARING = ("costs", "max_wait", "classes", "rates", "shared_rates", "bursts", "caps")
"""What a worker shares its slots by, besides quanta; as it was said last."""

_KEY = ("node", "pid", "boot")

_NAME = r"-([^-/]+)-[0-9]+\.jsonl$"
"""The end of a file's name: the process's boot, and which of its files it is."""


def processes(events: DataFrame, quarantine: DataFrame | None = None) -> DataFrame:
    """One row per process.

    Arguments:
        quarantine: lines that are no records; None: there are none.
    """
    return processes_of(lives(events), quarantine)


def lives(events: DataFrame) -> DataFrame:
    """What each process says by itself, without the others.

    It is made again only for those of which there are new events.
    """
    counted = events.groupBy(*_KEY).agg(
        F.min("at").alias("first_at"),
        F.min(F.when(F.col("seq") == 0, F.col("at"))).alias("born_at"),
        F.max("at").alias("last_at"),
        F.count("seq").alias("records"),
        (F.max("seq") + 1 - F.count("seq")).alias("missing"),
    )
    # These are few; what is added up of all events above are numbers, which needs no sorting.
    said = events.where("kind = 'process'").groupBy(*_KEY)
    of_itself = said.agg(
        F.max("dropped").alias("dropped"),
        _last("parent"),
        _last("concurrency"),
        _last("pool"),
        _last("heartbeat"),
        *map(_last, SHARING),
        F.max_by("state", F.when(_is_end(), F.col("at"))).alias("end"),
        F.min(F.when(_is_end(), F.col("at"))).alias("ended_at"),
    )
    counted = counted.join(of_itself, list(_KEY), "left")
    counted = counted.withColumn("dropped", F.coalesce("dropped", F.lit(0)))
    return counted.join(_quanta(events), list(_KEY), "left")


def processes_of(counted: DataFrame, quarantine: DataFrame | None = None) -> DataFrame:
    """One row per process, of all lives."""
    if quarantine is not None:
        counted = _with_torn(counted, quarantine)
    return _with_liveness(counted).select(
        *_KEY,
        F.coalesce("parent", "boot").alias("worker"),
        "born_at",
        "first_at",
        "last_at",
        "records",
        F.coalesce("missing", F.lit(0)).alias("missing"),
        "dropped",
        _is_complete().alias("complete"),
        "end",
        "ended_at",
        "liveness",
        "concurrency",
        "pool",
        "heartbeat",
        "quanta",
        *SHARING,
    )


def _with_torn(counted: DataFrame, quarantine: DataFrame) -> DataFrame:
    """A line that is no record may have been one: by its file, of which process."""
    lines = quarantine.where("reason <> 'empty'")
    torn = lines.select(F.regexp_extract("file", _NAME, 1).alias("boot")).groupBy("boot").count()
    counted = counted.join(F.broadcast(torn), "boot", "left")
    return counted.withColumn("dropped", F.greatest("dropped", F.coalesce("count", F.lit(0))))


def _quanta(events: DataFrame) -> DataFrame:
    """Queue to quantum, by process: of its signs of life, and of what it said of each queue."""
    columns = (*_KEY, "queue", "quantum", "at", "seq")
    alive = events.where("quanta is not null").select(
        *_KEY, "at", "seq", F.explode("quanta").alias("queue", "quantum")
    )
    said = alive.select(*columns).unionByName(events.select(*columns).where("quantum is not null"))
    last = said.groupBy(*_KEY, "queue").agg(F.max_by("quantum", F.struct("at", "seq")).alias("q"))
    pairs = F.collect_list(F.struct("queue", "q"))
    return last.groupBy(*_KEY).agg(F.map_from_entries(pairs).alias("quanta"))


def _is_complete() -> Column:
    gapless = F.col("born_at").isNotNull() & (F.col("missing") == 0) & (F.col("dropped") == 0)
    return gapless & (F.col("parent").isNull() | F.col("of_boot").isNotNull())


def _is_end() -> Column:
    return F.col("state").isin("exit", "dead")


def _last(name: str) -> Column:
    return F.max_by(name, F.when(F.col(name).isNotNull(), F.col("at"))).alias(name)


def _with_liveness(counted: DataFrame) -> DataFrame:
    horizon = counted.agg(F.max("last_at").alias("horizon"))
    parents = counted.select(
        F.col("node").alias("of_node"),
        F.col("boot").alias("of_boot"),
        F.col("heartbeat").alias("beat_of_parent"),
        F.col("last_at").alias("last_of_parent"),
        F.col("ended_at").alias("end_of_parent"),
    )
    is_parent = (F.col("node") == F.col("of_node")) & (F.col("parent") == F.col("of_boot"))
    return (
        counted.crossJoin(F.broadcast(horizon))
        .join(parents, is_parent, "left")
        .withColumn("liveness", _liveness())
    )


def _liveness() -> Column:
    beat = F.coalesce("heartbeat", "beat_of_parent")
    with_parent = F.col("heartbeat").isNull() & F.col("end_of_parent").isNull()
    last = F.when(with_parent, F.greatest("last_at", "last_of_parent")).otherwise(F.col("last_at"))
    return (
        F.when(F.col("ended_at").isNotNull(), "ended")
        .when(last >= F.col("horizon") - BEATS * beat, "alive")
        .otherwise("silent")
    )
