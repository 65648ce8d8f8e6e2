"""Silver: where in a process's log records are missing, and so when they were written.

A process numbers its records in the order of writing. What is missing between two of them was
written between their times, by the same clock. What is missing before the first that is here was
written before that.

A disk that fails may change a number, and so put a gap in a wrong place, or hide one. If it takes
that of a neighbour which is missing, what is missing was written on the other side of that record:
so a gap reaches to the record before the last, and to the one after the next. If it takes that of
any other, a later number has an earlier time. It has one, too, after the clock was set back; but
where records are missing they may then be of any time, and where none is, a record may be there
twice: in a copy by its own number, and by one that hides another.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from celery_fair.pipeline.numbering import digest

__all__ = ["gaps"]

_KEY = ("node", "pid", "boot")


def gaps(events: DataFrame, processes: DataFrame) -> DataFrame:
    """One row per run of missing numbers; `since` is null where nobody knows.

    If `last` is before `first`, nothing is missing between two records that are out of order.

    Arguments:
        processes: or `lives`, see `celery_fair.pipeline.silver.processes`.
    """
    gappy = processes.where("missing > 0").select(*_KEY, F.lit(True).alias("gappy"))
    looked_at = processes.where("missing > 0 or ragged").select(*_KEY)
    numbered = (
        events.where("seq is not null and coalesce(state <> 'dead', true)")
        .join(F.broadcast(looked_at), list(_KEY), "left_semi")
        .select(*_KEY, "seq", "at", digest().alias("digest"))
    )
    noted = _noted(numbered)
    odd = noted.where("odd").join(F.broadcast(_there_twice(noted, numbered)), list(_KEY), "left")
    odd = odd.join(F.broadcast(gappy), list(_KEY), "left").where("gappy or twice")
    every = noted.where("gap and not odd").unionByName(odd.select(*noted.columns))
    return every.select(
        *_KEY,
        "first",
        (F.col("seq") - 1).alias("last"),
        F.when(F.col("odd"), F.lit(float("-inf"))).otherwise(F.col("since")).alias("since"),
        F.when(F.col("odd"), F.lit(float("inf"))).otherwise(F.col("until")).alias("until"),
    )


def _noted(numbered: DataFrame) -> DataFrame:
    """The records before which there is a `gap`, or which are `odd`: out of order, or twice."""
    in_order = Window.partitionBy(*_KEY).orderBy("seq")
    before: dict[str, Column] = {
        "before": F.lag("seq").over(in_order),
        "at_before": F.lag("at").over(in_order),
        "digest_before": F.lag("digest").over(in_order),
        "since": F.lag("at", 2).over(in_order),
        "until": F.lead("at").over(in_order),
    }
    odd = (F.col("at") < F.col("at_before")) | (F.col("digest") == F.col("digest_before"))
    first = F.coalesce("before", F.lit(-1)) + 1
    noted = numbered.withColumns(before).withColumns(
        {
            "first": first,
            "gap": F.col("seq") > first,
            "odd": F.coalesce(odd, F.lit(False)),
            "since": F.coalesce("since", "at_before"),
            "until": F.coalesce("until", "at"),
        }
    )
    return noted.where("gap or odd")


def _there_twice(noted: DataFrame, numbered: DataFrame) -> DataFrame:
    """Processes that have one of their odd records by two numbers (`twice`)."""
    both = F.explode(F.array("digest", "digest_before")).alias("digest")
    odd = noted.where("odd").select(*_KEY, both).distinct()
    counted = numbered.join(F.broadcast(odd), [*_KEY, "digest"]).groupBy(*_KEY, "digest").count()
    return counted.where("count > 1").select(*_KEY, F.lit(True).alias("twice")).distinct()
