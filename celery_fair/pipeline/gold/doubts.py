"""Gold: from when until when which process may have begun a task without a record here.

=====================================  ===================  ========================================
a process's log                        since                until
=====================================  ===================  ========================================
lacks records between two others       the one before       the one after
lacks its first records                for ever             the first that is here
says that it dropped some, unnumbered  its first record     its end, or for ever
may have lost its end                  the last record      its end
has no end: what comes is not read     the last record      for ever
is a child's, and its worker's is not  for ever             for ever
here
is not read at all                     its first file       for ever, or until no
                                                            file of it was there
is not there, though its worker names  the worker's first   the worker's end
it                                     record
has a file that breaks off             the file's name      the file's last change
=====================================  ===================  ========================================

Some of these are no loss, but the way in which logs come: what a process that is *alive* has
written last is in a file that is still open, and so is all of a new process, or of its worker. Such
a doubt is *open*: the next run reads on.

If a process's clock was not set at first, or is ahead (`celery_fair.pipeline.silver.clocks`),
nobody knows when it wrote what it wrote then: its doubts have no bounds.

A doubt concerns the queues that the process, or its worker, has named as those that it consumes;
if it has named none, every queue. A queue that was added to a worker while it ran is named by a
record before it is consumed.
"""

from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from celery_fair.pipeline.silver.clocks import horizon, is_true

_EVER, _FOR_EVER = float("-inf"), float("inf")

_COLUMNS = ("node", "pid", "boot", "queues", "why", "since", "until", "open")

_CHILD = ("node", "boot", "child")
_CHILDS = 60.0
"""Seconds around a child's life in which its worker may name it: both have one clock, which may be
set right. A system gives a process's number to another one much later."""

_ROTATE, _BEATS, _BEAT = 60.0, 4, 10.0
"""A file is sealed with the first record after so many seconds, the next heartbeat, as a rule."""


def doubts(
    processes: DataFrame, gaps: DataFrame, unread: DataFrame, unreadable: DataFrame
) -> DataFrame:
    """One row per doubt: the process, `queues` (null for all), `since`, `until`, `open`, `why`.

    Arguments:
        gaps: where records are missing.
        unread: processes with files that were not read.
        unreadable: files that are not whole.
    """
    known = _with_queues(processes)
    found = (
        _of_process(known),
        _of_unseen(known, processes),
        _of_gaps(known, gaps),
        _of_unread(processes, unread),
        _of_unreadable(known, unreadable),
    )
    return _unbounded(reduce(DataFrame.unionByName, found), processes)


def _with_queues(processes: DataFrame) -> DataFrame:
    """Processes with `queues`, whether they are `late`, and what is known of their workers.

    What was written before `sealed` is in a file that is sealed.
    """
    workers = processes.select(
        "node",
        F.col("boot").alias("worker"),
        F.col("quanta").alias("of_worker"),
        F.col("born_at").alias("since_worker"),
        F.col("heartbeat").alias("beat"),
        F.col("rotate").alias("rotate_worker"),
    )
    own, of_worker = (
        F.coalesce(F.map_keys(name), F.array().cast("array<string>"))
        for name in ("quanta", "of_worker")
    )
    named = F.array_distinct(F.concat(own, of_worker))
    beat = F.coalesce("heartbeat", "beat", F.lit(_BEAT))
    rotate = F.coalesce("rotate", "rotate_worker", F.lit(_ROTATE))
    return (
        processes.join(workers.withColumn("with_worker", F.lit(True)), ["node", "worker"], "left")
        .withColumn("queues", F.when(F.size(named) > 0, named))
        .crossJoin(F.broadcast(horizon(processes)))
        .withColumn("sealed", F.col("horizon") - rotate - _BEATS * beat)
        .withColumn("late", F.col("last_at") < F.col("sealed"))
    )


def _unbounded(found: DataFrame, processes: DataFrame) -> DataFrame:
    """Of a process whose clock was not set, or ahead, without times; or that have such a time, or
    end before they begin.

    A child that is in no log has its worker's clock.
    """
    unset = processes.where(~(is_true("first_at") & is_true("last_at")))
    unset = unset.select("node", "boot", F.lit(True).alias("unset")).distinct()
    joined = found.join(F.broadcast(unset), ["node", "boot"], "left")
    odd = F.coalesce("unset", F.lit(False)) | _is_odd("since") | _is_odd("until")
    odd |= F.coalesce(F.col("since") > F.col("until"), F.lit(False))  # the clock was set back
    return joined.withColumns(
        {
            "since": F.when(odd, F.lit(_EVER)).otherwise(F.col("since")),
            "until": F.when(odd, F.lit(_FOR_EVER)).otherwise(F.col("until")),
            # Or it would be neither open nor not, and no doubt at all.
            "open": F.coalesce("open", F.lit(False)) & ~odd,
        }
    ).select(*found.columns)


def _is_odd(name: str) -> Column:
    """Whether a bound is a time that no clock shows which is right."""
    bound = F.col(name).isin(_EVER, _FOR_EVER)
    return F.coalesce(~bound & ~is_true(name), F.lit(False))


def _told(rows: DataFrame, **made: Column) -> DataFrame:
    """Rows as doubts: what is not made for it is in them; none is open that does not say so."""
    columns = {name: F.col(name) for name in _COLUMNS} | {"open": F.lit(False)} | made
    return rows.select(*(columns[name].alias(name) for name in _COLUMNS))


def _of_process(known: DataFrame) -> DataFrame:
    born, ended = _begun(F.coalesce("born_at", "since_worker")), _ended()
    written = F.coalesce("written_at", F.lit(_EVER))
    last = F.when(F.col("ended_at") < F.col("last_at"), F.lit(_EVER)).otherwise(written)
    orphan = F.col("with_worker").isNull()
    silent, alive = F.lit("its log breaks off"), "what it has written since is not read yet"
    every = F.array(
        _doubt(
            orphan,
            "the log of its worker is missing",
            F.lit(_EVER),
            F.lit(_FOR_EVER),
            F.coalesce(F.col("born_at") >= F.col("sealed"), F.lit(False)),
        ),
        _doubt(F.col("born_at").isNull(), "its first records are missing", born, F.col("first_at")),
        _doubt(F.col("uncounted"), "records are missing in its log", born, ended),
        _doubt(F.col("cut"), "the end of its log may be lost", last, ended),
        _doubt(
            F.col("ended_at").isNull(),
            F.when(F.col("late"), silent).otherwise(alive),
            written,
            F.lit(_FOR_EVER),
            ~F.col("late"),
        ),
    )
    exploded = known.withColumn("doubt", F.explode(F.array_compact(every)))
    return _told(exploded, **{name: F.col(f"doubt.{name}") for name in _COLUMNS[4:]})


def _begun(first: Column) -> Column:
    """When a process began, unless its clock was set back to before that."""
    return F.when(first <= F.col("first_at"), first).otherwise(F.lit(_EVER))


def _ended() -> Column:
    """When it ended, unless its clock was set back since, or it has not."""
    return F.when(F.col("ended_at") >= F.col("last_at"), F.col("ended_at")).otherwise(
        F.lit(_FOR_EVER)
    )


def _doubt(
    there: Column, why: Column | str, since: Column, until: Column, opened: Column | None = None
) -> Column:
    told = F.struct(
        (F.lit(why) if isinstance(why, str) else why).alias("why"),
        since.alias("since"),
        until.alias("until"),
        (F.lit(False) if opened is None else opened).alias("open"),
    )
    return F.when(there, told)


def _of_gaps(known: DataFrame, gaps: DataFrame) -> DataFrame:
    named = known.select("node", "pid", "boot", "queues", "first_at")
    # Those before all that is here are a doubt of their own, up to the earliest time there is.
    untold = F.col("since").isNotNull() | (F.col("until") > F.col("first_at"))
    several = F.format_string("its records %d to %d are missing", "first", "last")
    one = F.format_string("its record %d is missing", "first")
    missing = F.when(F.col("first") == F.col("last"), one).otherwise(several)
    found = gaps.join(named, ["node", "pid", "boot"]).where(untold)
    return _told(found, why=missing, since=F.coalesce("since", F.lit(_EVER)))


def _of_unseen(known: DataFrame, processes: DataFrame) -> DataFrame:
    """Children that have begun tasks, say their workers, and could write no log then.

    A child's number may be another's by then.
    """
    seen = processes.select(
        "node",
        F.col("worker").alias("boot"),
        F.col("pid").alias("child"),
        (F.col("first_at") - _CHILDS).alias("from"),
        (F.greatest(F.coalesce("ended_at", F.lit(_FOR_EVER)), "last_at") + _CHILDS).alias("to"),
    )
    named = known.where("size(children) > 0").withColumn("named", F.explode("children"))
    named = named.withColumns({"child": F.col("named.child"), "at": F.col("named.at")}).alias("n")
    same = reduce(and_, (F.col(f"n.{name}") == F.col(f"s.{name}") for name in _CHILD))
    there = same & F.col("n.at").between(F.col("s.from"), F.col("s.to"))
    return _told(
        named.join(seen.alias("s"), there, "left_anti"),
        pid=F.col("child"),
        why=F.lit("it is a child process of which there is no log"),
        since=_begun(F.col("born_at")),
        until=_ended(),
        open=F.col("at") >= F.col("sealed"),
    )


def _of_unread(processes: DataFrame, unread: DataFrame) -> DataFrame:
    """Nobody knows which queues these consume, nor of which node they are."""
    read = processes.select("pid", "boot")
    new = F.col("since") >= F.col("horizon") - _ROTATE - _BEATS * _BEAT
    opened = (new | F.col("horizon").isNull()) & F.col("until").isNull()
    found = unread.join(F.broadcast(read), ["pid", "boot"], "left_anti")
    return _told(
        found.crossJoin(F.broadcast(horizon(processes))),
        node=F.lit(None).cast("string"),
        queues=F.lit(None).cast("array<string>"),
        why=F.lit("no file of its log was read yet"),
        since=F.coalesce("since", F.lit(_EVER)),
        until=F.coalesce("until", F.lit(_FOR_EVER)),
        open=F.coalesce(opened, F.lit(False)),
    )


def _of_unreadable(known: DataFrame, unreadable: DataFrame) -> DataFrame:
    """Of a file that is of no process alone, nobody knows whose records it had."""
    named = known.select("node", "pid", "boot", "queues")
    return _told(unreadable.join(named, ["pid", "boot"], "left"))
