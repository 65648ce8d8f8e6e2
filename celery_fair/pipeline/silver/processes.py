"""Silver: one row per process, and whether its log is all there.

A process numbers its records from 0. It wrote at least ``max(seq) + 1``; those that are not here
are *missing*; *dropped* are those that it could not write, and lines of its files that are torn, or
otherwise no records. Its log is complete if there are none of either, and the log of its parent
process is here at all. When missing records were written, `gaps` says;
what was dropped is among them, unless the process says of more (`uncounted`). What a process
wrote after the last record that is here cannot be known (`cut`: nor if it has died, as its end may
be lost), so the log also says how the process ended:

ended    the log has its `exit`, or another process has found it `dead`
alive    its last record is no older than three heartbeats before the log's last record of all,
         but for those of clocks that are a day ahead
silent   neither: it may be gone, or its file is not here yet

A child process without heartbeats of its own is alive as long as its parent is.

Times before `dated_at`, its first that can be true, are those of a clock that was not set.

Its quanta are, queue by queue, the last that it reported; when it has ended it has no queues any
more.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from celery_fair.eventlog.packer import PACKED
from celery_fair.pipeline.numbering import is_dead
from celery_fair.pipeline.silver.clocks import horizon, is_set
from celery_fair.pipeline.silver.unread import torn_boot

BEATS = 3
"""Heartbeats that may be missing before a process counts as silent."""

_KEY = ("node", "pid", "boot")

_EARLIEST = ("first_at", "dated_at", "born_at")
_LATEST = ("last_at", "latest_at", "number", "dropped", "said_dropped")
_SAID_LAST = ("parent", "concurrency", "pool", "heartbeat", "rotate", "costs")

_CHILDREN = "array<struct<child:bigint,at:double>>"


def lives(events: DataFrame) -> DataFrame:
    """What each process says by itself, without the others.

    It is made again only for those of which there are new events.
    """
    lived = _counted(events).join(_said(events), list(_KEY), "left")
    lived = lived.withColumns(
        {
            "dropped": F.coalesce("dropped", F.lit(0)),
            "children": F.coalesce("children", F.array().cast(_CHILDREN)),
        }
    )
    lived = lived.withColumns(_end()).drop("latest_at", "number", "exit_at", "death")
    return lived.join(_quanta(events), list(_KEY), "left")


def _end() -> dict[str, Column]:
    """What a process says of its end itself; else what another has said last, unless it goes on.

    Who was taken for dead and has written more since than was there then, is not.
    """
    later = F.col("latest_at") > F.col("death.at")
    undead = F.coalesce(F.col("number") > F.col("death.found"), later, F.lit(False))
    died_at = F.when(~undead, F.col("death.at"))
    end = F.when(F.col("exit_at").isNotNull(), "exit").when(died_at.isNotNull(), "dead")
    return {"end": end, "ended_at": F.coalesce("exit_at", died_at)}


def _counted(events: DataFrame) -> DataFrame:
    """Of each process what all of its records tell.

    First of each of its files: what is added up of all events is then numbers and times, for which
    nothing needs to be sorted.
    """
    number, dropped = _number(), F.col("dropped")
    of_files = events.groupBy(*_KEY, "file").agg(
        F.min("at").alias("first_at"),
        F.min(F.when(is_set("at"), F.col("at"))).alias("dated_at"),
        F.min(F.when(F.col("seq") == 0, F.col("at"))).alias("born_at"),
        F.max("at").alias("last_at"),
        F.max(F.when(number.isNotNull(), F.col("at"))).alias("latest_at"),
        # Not the latest time: if the clock has been set back, what is lost may be of before that.
        F.max_by("at", number).alias("written_at"),
        F.count("seq").alias("records"),
        F.count(number).alias("numbers"),
        F.max(number).alias("number"),
        F.max(_number_found()).alias("found"),
        F.max("dropped").alias("dropped"),
        F.max(F.when(number.isNotNull(), dropped)).alias("said_dropped"),
        F.max(F.when(is_dead(), dropped)).alias("dropped_at_end"),
        F.max(is_dead() & _number_found().isNull()).alias("unsaid"),
    )
    return of_files.groupBy(*_KEY).agg(
        *(F.min(name).alias(name) for name in _EARLIEST),
        *(F.max(name).alias(name) for name in _LATEST),
        F.max_by("written_at", "number").alias("written_at"),
        F.sum("records").alias("records"),
        (F.greatest(F.max("number"), F.max("found")) + 1 - F.sum("numbers")).alias("missing"),
        _cut().alias("cut"),
    )


def _said(events: DataFrame) -> DataFrame:
    """Of each process what its few records tell that are about itself."""
    is_process = F.col("kind") == "process"
    is_exit = is_process & (F.col("state") == "exit")
    death = F.struct("at", _number_found().alias("found"))
    children = F.collect_set(F.when(F.col("child").isNotNull(), F.struct("child", "at")))
    said = events.where(is_process | (F.col("kind") == "settings"))
    return said.groupBy(*_KEY).agg(
        F.array_sort(children).alias("children"),
        *map(_last, _SAID_LAST),
        F.max(F.when(is_exit, F.col("at"))).alias("exit_at"),
        F.max(F.when(is_process & is_dead(), death)).alias("death"),
    )


def processes_of(counted: DataFrame, quarantine: DataFrame) -> DataFrame:
    """One row per process, of all lives and the lines that are no records."""
    return _with_liveness(_with_torn(counted, quarantine)).select(
        *_KEY,
        F.coalesce("parent", "boot").alias("worker"),
        "born_at",
        "first_at",
        "dated_at",
        "last_at",
        "written_at",
        "records",
        F.coalesce("missing", F.lit(0)).alias("missing"),
        "dropped",
        _is_complete().alias("complete"),
        "cut",
        F.coalesce(F.col("said_dropped") > F.col("missing"), F.lit(False)).alias("uncounted"),
        "end",
        "ended_at",
        "liveness",
        *_SAID_LAST[1:],
        "children",
        "quanta",
    )


def _with_torn(counted: DataFrame, quarantine: DataFrame) -> DataFrame:
    """A line that is no record may have been one: by its file, of which process."""
    bad = quarantine.where("reason <> 'empty'").groupBy(torn_boot().alias("boot"))
    torn = bad.agg(F.count(F.lit(1)).alias("torn"))
    counted = counted.join(F.broadcast(torn), "boot", "left")
    at_end = (F.col("torn") > 0) & ~F.coalesce(F.col("end") == "exit", F.lit(False))
    return counted.withColumns(
        {
            "dropped": F.greatest("dropped", F.coalesce("torn", F.lit(0))),
            "cut": F.col("cut") | F.coalesce(at_end, F.lit(False)),
        }
    )


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


def _cut() -> Column:
    """Whether records may be lost after the last: who declares a process dead says so.

    Or it has found more than are here; if it does not say what, and there is nothing else in that
    file, nobody knows. Of a pack nobody knows which of its records were in one file.
    """
    unsaid = F.col("unsaid")
    of_dead = F.max(F.when(unsaid, F.col("file")))
    return (
        F.coalesce(F.max("dropped_at_end") > 0, F.lit(False))
        | F.coalesce(F.max("found") > F.max("number"), F.lit(False))
        | F.coalesce(of_dead != F.max_by("file", "number"), F.lit(False))
        | F.max(unsaid & F.col("file").endswith(PACKED))
    )


def _number() -> Column:
    """A record's, of those that the process itself has written."""
    return F.when(~is_dead(), F.col("seq"))


def _number_found() -> Column:
    """Of the last record that was there when the process was declared dead."""
    return F.when(is_dead(), F.col("last"))


def _last(name: str) -> Column:
    return F.max_by(name, F.when(F.col(name).isNotNull(), F.col("at"))).alias(name)


def _with_liveness(counted: DataFrame) -> DataFrame:
    parents = counted.select(
        F.col("node").alias("of_node"),
        F.col("boot").alias("of_boot"),
        F.col("heartbeat").alias("beat_of_parent"),
        F.col("last_at").alias("last_of_parent"),
        F.col("ended_at").alias("end_of_parent"),
    )
    is_parent = (F.col("node") == F.col("of_node")) & (F.col("parent") == F.col("of_boot"))
    return (
        counted.crossJoin(F.broadcast(horizon(counted)))
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


def gaps(events: DataFrame, processes: DataFrame) -> DataFrame:
    """One row per run of missing numbers: `first` to `last`, `since` and `until`.

    What is missing between two records of a process was written between their times, by the same
    clock; what is missing before the first that is here, before that. `since` is null where nobody
    knows, and after `until` if the clock was set back meanwhile.

    Arguments:
        processes: or `lives`.
    """
    gappy = processes.where("missing > 0").select(*_KEY)
    numbered = events.where("seq is not null and coalesce(state <> 'dead', true)")
    in_order = Window.partitionBy(*_KEY).orderBy("seq")
    noted = (
        numbered.join(F.broadcast(gappy), list(_KEY), "left_semi")
        .withColumn("first", F.coalesce(F.lag("seq").over(in_order), F.lit(-1)) + 1)
        .withColumn("since", F.lag("at").over(in_order))
        .where("seq > first")
    )
    return noted.select(
        *_KEY, "first", (F.col("seq") - 1).alias("last"), "since", F.col("at").alias("until")
    )
