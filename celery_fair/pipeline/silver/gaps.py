"""Silver: where in a process's log records are missing, and so when they were written.

A process numbers its records in the order of writing. What is missing between two of them was
written between their times, by the same clock. What is missing before the first that is here was
written before that.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

_KEY = ("node", "pid", "boot")


def gaps(events: DataFrame, processes: DataFrame) -> DataFrame:
    """One row per run of missing numbers: `first` to `last`, `since` and `until`.

    `since` is null where nobody knows, and after `until` if the clock was set back meanwhile.

    Arguments:
        processes: or `lives`, see `celery_fair.pipeline.silver.processes`.
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
