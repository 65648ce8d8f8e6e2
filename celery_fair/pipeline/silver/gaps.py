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
    """One row per run of missing numbers; `since` is null where nobody knows.

    If `last` is before `first`, nothing is missing between two records that are out of order.
    """
    gappy = processes.where("missing > 0").select(*_KEY)
    numbered = events.where("seq is not null and coalesce(state <> 'dead', true)").select(
        *_KEY, "seq", "at"
    )
    in_order = Window.partitionBy(*_KEY).orderBy("seq")
    back = F.coalesce(F.col("at") < F.col("at_before"), F.lit(False))
    return (
        numbered.join(F.broadcast(gappy), list(_KEY), "left_semi")
        .withColumn("before", F.lag("seq").over(in_order))
        .withColumn("at_before", F.lag("at").over(in_order))
        .withColumn("first", F.coalesce("before", F.lit(-1)) + 1)
        .where((F.col("seq") > F.col("first")) | back)
        .select(
            *_KEY,
            "first",
            (F.col("seq") - 1).alias("last"),
            F.when(back, F.lit(float("-inf"))).otherwise(F.col("at_before")).alias("since"),
            F.when(back, F.lit(float("inf"))).otherwise(F.col("at")).alias("until"),
        )
    )
