"""Many scenarios of one trace at once: each is one task of Spark's, its trace streamed to it.

A replay is sequential, for each decision depends on all before it. So the trace is joined with the
scenarios, and each scenario's copy goes to one task, in order and in batches. No task needs room
for the whole trace, only for the messages that wait and for one number per message that was
started.

A scenario about a queue or a key that a trace lacks changes nothing: most likely it is mistyped.

What is named has to be anywhere in the trace that is replayed; a change is of all of its time.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from celery_fair.pipeline.errors import RefusedError
from celery_fair.pipeline.replay.line import Message
from celery_fair.pipeline.replay.machine import Machine
from celery_fair.pipeline.replay.outcome import COLUMNS, SCHEMA, outcomes
from celery_fair.pipeline.replay.scenario import Scenario, named

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = ("scenario", *Message._fields)


def replay(trace: DataFrame, scenarios: list[Scenario], by_key: bool = False) -> DataFrame:
    """One row per scenario and queue, or per scenario, queue and key.

    Arguments:
        trace: as `celery_fair.pipeline.traces` makes it.
        scenarios: of different names.
    """
    by_name = {scenario.name: scenario for scenario in scenarios}
    names = trace.sparkSession.createDataFrame([(name,) for name in by_name], "scenario string")
    copies = trace.crossJoin(names.hint("broadcast")).select(*_COLUMNS)
    return (
        copies.repartition(len(scenarios), "scenario")
        .sortWithinPartitions(
            "scenario", F.col("published") + F.col("transit"), "published", "queue", "runtime"
        )
        .mapInPandas(partial(_replayed, by_name, by_key), SCHEMA)
    )


def _replayed(
    scenarios: dict[str, Scenario], by_key: bool, batches: Iterator["pd.DataFrame"]
) -> Iterator["pd.DataFrame"]:
    import pandas as pd

    every = (
        row
        for batch in batches
        for row in zip(*(batch[name].tolist() for name in _COLUMNS), strict=True)
    )
    for name, copy in groupby(every, itemgetter(0)):
        starts = Machine(scenarios[name]).run(Message(*row[1:]) for row in copy)
        made = sorted(outcomes(starts, by_key).items(), key=lambda item: str(item[0]))
        rows = [outcome.row(name, *whose) for whose, outcome in made]
        yield pd.DataFrame(rows, columns=COLUMNS)


# What a trace lacks ------------------------------------------------------------


_LISTED = 10


def refuse_absent(texts: Iterable[str], trace: DataFrame) -> None:
    """Refuse scenarios that name what no message of a trace is of.

    Raises:
        RefusedError: it says which there are.
    """
    where = {name: text for text in texts for name in named(text)}
    if not where:
        return
    queues = [row["queue"] for row in trace.select("queue").distinct().collect()]
    for (queue, key), text in where.items():
        if queue not in queues:
            raise _refused(text, f"queue {queue!r}", sorted(queues)[:_LISTED])
        if key:
            tenants = trace.where(F.col("queue") == queue).select(
                F.substring_index("key", "/", 1).alias("tenant")
            )
            if tenants.where(F.col("tenant") == key).isEmpty():
                known = tenants.where("tenant is not null").distinct().orderBy("tenant")
                keys = [row["tenant"] for row in known.limit(_LISTED).collect()]
                raise _refused(text, f"key {key!r} in queue {queue!r}", keys)


def _refused(text: str, what: str, known: list[str]) -> RefusedError:
    there = f"there are {', '.join(map(repr, known))}" if known else "none there has a key"
    return RefusedError(f"scenario {text!r}: the trace has no message of {what}; {there}")
