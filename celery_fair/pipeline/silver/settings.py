"""Silver: what each queue was shared by at each worker, from when until when.

Each `settings` record holds until that of its queue's next one, the last of them until the last
record of its process. One that says the same again, as is done each hour, begins nothing.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from celery_fair.eventlog.records import KINDS

__all__ = ["SETTINGS", "settings"]

SETTINGS: Final = [name for name in KINDS["settings"] if name != "queue"]
"""The fields of a record, besides its queue's name."""

_WORKER = ("node", "pid", "boot")
_MAPS = [name for name in SETTINGS if KINDS["settings"][name][0].startswith("map")]


def settings(events: DataFrame) -> DataFrame:
    """One row per worker, queue and time of the same settings."""
    said = events.where("kind = 'settings' and queue is not null")
    by_queue = Window.partitionBy(*_WORKER, "queue").orderBy("at", "seq")
    ends = events.groupBy(*_WORKER).agg(F.max("at").alias("last_at"))
    # Maps cannot be compared, but what they are written as can.
    comparable = (
        F.to_json(F.array_sort(F.map_entries(name))) if name in _MAPS else F.col(name)
        for name in SETTINGS
    )
    return (
        said.withColumn("said", F.to_json(F.struct(*comparable)))
        .withColumn("before", F.lag("said").over(by_queue))
        .where("before is null or before <> said")
        .withColumn("until", F.lead("at").over(by_queue))
        .join(ends, list(_WORKER))
        .select(
            *_WORKER,
            "queue",
            F.col("at").alias("since"),
            F.coalesce("until", "last_at").alias("until"),
            *SETTINGS,
        )
    )
