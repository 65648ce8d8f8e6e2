"""Times, cut into intervals, which begin at multiples of their length.

What lasts from a clock's time before it was set to a true one would be millions of them: it is left
out.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from celery_fair.pipeline.silver.clocks import LONGEST

__all__ = ["bounds", "cut"]


def cut(rows: DataFrame, since: str, until: str, interval: float) -> DataFrame:
    """Return rows once for each `bucket` that they reach into: `from` and `to` within it."""
    first, last = (F.floor(F.col(name) / interval) for name in (since, until))
    return (
        rows.where(F.col(until) - F.col(since) <= LONGEST)
        .withColumn("bucket", F.explode(F.sequence(first, last)))
        .withColumn("from", F.greatest(since, F.col("bucket") * interval))
        .withColumn("to", F.least(until, (F.col("bucket") + 1) * interval))
        .where("to > from")
    )


def bounds(interval: float) -> list[Column]:
    """Return when a `bucket` begins and ends."""
    return [
        (F.col("bucket") * interval).alias("since"),
        ((F.col("bucket") + 1) * interval).alias("until"),
    ]
