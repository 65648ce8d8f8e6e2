"""Times, cut into intervals, which begin at multiples of their length."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

__all__ = ["bounds", "cut"]


def cut(rows: DataFrame, since: str, until: str, interval: float) -> DataFrame:
    """Return rows once for each `bucket` that they reach into: `from` and `to` within it."""
    first, last = (F.floor(F.col(name) / interval) for name in (since, until))
    return (
        rows.withColumn("bucket", F.explode(F.sequence(first, last)))
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
