"""What keys weigh, and which of them have a cap or a leash, by queue and time.

All workers of a queue share it by the same settings, so what any of them said last holds for all.
What was said first holds for the time before, too: messages may have waited for the first worker.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

__all__ = ["weighed"]

_NAMES = ("weight", "weights", "cap", "caps", "rate", "rates")
_EVER = 1e18
"""Seconds since 1970, after everything."""


def weighed(times: DataFrame, settings: DataFrame) -> DataFrame:
    """Return times, cut where settings change, with the `weight` of their `tenant`, and `limited`.

    Arguments:
        times: `queue`, `tenant`, `since` and `until`.
        settings: as in `celery_fair.pipeline.silver.settings`.
    """
    known = _known(settings)
    overlaps = (
        (times["queue"] == known["of_queue"])
        & (times["since"] < known["said_until"])
        & (times["until"] > known["said_since"])
    )
    joined = times.join(F.broadcast(known), overlaps, "left")
    return (
        joined.withColumn("weight", _own("key_weights", "key_weight", 1.0))
        .withColumn(
            "limited",
            (_own("key_caps", "key_cap", 0.0) > 0) | (_own("key_rates", "key_rate", 0.0) > 0),
        )
        .withColumn("since", F.greatest("since", "said_since"))
        .withColumn("until", F.least("until", "said_until"))
        .select(*times.columns, "weight", "limited")
    )


def _own(of_key: str, usual: str, without: float) -> Column:
    own = F.try_element_at(F.col(of_key), F.col("tenant"))
    return F.coalesce(own, F.col(usual).cast("double"), F.lit(without))


def _known(settings: DataFrame) -> DataFrame:
    """What each queue's keys had, from when until when."""
    by_time = Window.partitionBy("queue").orderBy("since")
    fields = [f"key_{name}" for name in _NAMES]
    said = F.to_json(F.struct(*(_comparable(name) for name in fields)))
    return (
        settings.where("key_weight is not null")
        .withColumn("said", said)
        .withColumn("before", F.lag("said").over(by_time))
        .where("before is null or before <> said")
        .select(
            F.col("queue").alias("of_queue"),
            F.when(F.col("before").isNull(), -_EVER).otherwise(F.col("since")).alias("said_since"),
            F.coalesce(F.lead("since").over(by_time), F.lit(_EVER)).alias("said_until"),
            *fields,
        )
    )


def _comparable(name: str) -> Column:
    if name.endswith("s"):  # maps cannot be compared
        return F.array_sort(F.map_entries(name)).alias(name)
    return F.col(name)
