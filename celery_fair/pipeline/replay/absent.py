"""A scenario about a queue or a key that a trace lacks changes nothing: most likely it is mistyped.

What is named has to be anywhere in the trace that is replayed; a change is of all of its time.
"""

from collections.abc import Iterable
from difflib import get_close_matches

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from celery_fair.pipeline.errors import RefusedError
from celery_fair.pipeline.replay.scenario import named

__all__ = ["refuse_absent"]

_LISTED = 10
_COMPARED = 10_000
"""Keys with which one that is mistyped is compared, at the most."""


def refuse_absent(texts: Iterable[str], trace: DataFrame) -> None:
    """Refuse scenarios that name what no message of a trace is of.

    Raises:
        RefusedError: it says what is written alike.
    """
    where = {name: text for text in texts for name in named(text)}
    if not where:
        return
    queues = [row["queue"] for row in trace.select("queue").distinct().collect()]
    for (queue, _), text in where.items():
        if queue not in queues:
            raise RefusedError(
                f"scenario {text!r}: the trace has no message of queue {queue!r};"
                f" {_instead(queue, queues)}"
            )
    for (queue, key), text in where.items():
        if key:
            _refuse_absent_key(queue, key, text, trace)


def _refuse_absent_key(queue: str, key: str, text: str, trace: DataFrame) -> None:
    keys = F.col("key") if "key" in trace.columns else F.lit(None).cast("string")
    tenants = trace.where(F.col("queue") == queue).select(
        F.substring_index(keys, "/", 1).alias("tenant")
    )
    if not tenants.where(F.col("tenant") == key).isEmpty():
        return
    known = tenants.where("tenant is not null").distinct().limit(_COMPARED).collect()
    raise RefusedError(
        f"scenario {text!r}: the trace has no message of key {key!r} in queue {queue!r};"
        f" {_instead(key, [row['tenant'] for row in known])}"
    )


def _instead(name: str, known: list[str]) -> str:
    """What could have been meant."""
    if not known:
        return "none there has a key"
    if alike := get_close_matches(name, known, n=3, cutoff=0.5):
        return f"did you mean {' or '.join(map(repr, alike))}?"
    more = f" and {len(known) - _LISTED:,} more" if len(known) > _LISTED else ""
    return f"there are {', '.join(map(repr, sorted(known)[:_LISTED]))}{more}"
