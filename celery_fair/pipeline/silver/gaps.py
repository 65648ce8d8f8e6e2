"""Silver: where in a process's log records are missing, and so when they were written.

A process numbers its records in the order of writing. What is missing between two of them was
written between their times, by the same clock. What is missing before the first that is here was
written before that.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

__all__ = ["gaps"]

_KEY = ("node", "pid", "boot")


def gaps(events: DataFrame, processes: DataFrame) -> DataFrame:
    """One row per run of missing numbers; `since` is null where nobody knows."""
    gappy = processes.where("missing > 0").select(*_KEY)
    numbered = events.where("seq is not null and coalesce(state <> 'dead', true)").select(
        *_KEY, "seq", "at"
    )
    in_order = Window.partitionBy(*_KEY).orderBy("seq")
    return (
        numbered.join(F.broadcast(gappy), list(_KEY), "left_semi")
        .withColumn("before", F.lag("seq").over(in_order))
        .withColumn("at_before", F.lag("at").over(in_order))
        .withColumn("first", F.coalesce("before", F.lit(-1)) + 1)
        .where("seq > first")
        .select(
            *_KEY,
            "first",
            (F.col("seq") - 1).alias("last"),
            # If the clock was set back between, nobody knows how far it was ahead.
            F.when(F.col("at") >= F.col("at_before"), F.col("at_before"))
            .when(F.col("at_before").isNotNull(), F.lit(float("-inf")))
            .alias("since"),
            F.greatest("at", "at_before").alias("until"),
        )
    )
