"""Many scenarios of one trace at once: each is one task of Spark's, its trace streamed to it.

A replay is sequential, for each decision depends on all before it. So the trace is joined with the
scenarios, and each scenario's copy goes to one task, in order and in batches. No task needs room
for the whole trace, only for the messages that wait.

A scenario about a queue or a key that a trace lacks changes nothing: most likely it is mistyped.

What is named has to be anywhere in the trace that is replayed; a change is of all of its time.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from celery_fair.pipeline.errors import RefusedError
from celery_fair.pipeline.gold.waits import of_waits
from celery_fair.pipeline.replay.line import Message
from celery_fair.pipeline.replay.machine import Machine
from celery_fair.pipeline.replay.scenario import Scenario, named

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = ("scenario", *Message._fields)
_STARTS = {"scenario": "string", "queue": "string", "key": "string", "wait": "double"}
_BATCH = 10_000


def replay(trace: DataFrame, scenarios: list[Scenario], by_key: bool = False) -> DataFrame:
    """One row per scenario and queue, or per scenario, queue and key.

    Arguments:
        trace: as `celery_fair.pipeline.traces` makes it.
        scenarios: of different names.
    """
    by_name = {scenario.name: scenario for scenario in scenarios}
    names = trace.sparkSession.createDataFrame([(name,) for name in by_name], "scenario string")
    copies = trace.crossJoin(names.hint("broadcast")).select(*_COLUMNS)
    in_order = copies.repartition(len(scenarios), "scenario").sortWithinPartitions(
        "scenario", F.col("published") + F.col("transit"), "published", "queue", "runtime"
    )
    schema = ", ".join(f"{name} {kind}" for name, kind in _STARTS.items())
    starts = in_order.mapInPandas(partial(_replayed, by_name), schema)
    return starts.groupBy("scenario", "queue", *(["key"] if by_key else [])).agg(*of_waits())


def _replayed(
    scenarios: dict[str, Scenario], batches: Iterator["pd.DataFrame"]
) -> Iterator["pd.DataFrame"]:
    import pandas as pd

    every = (
        row
        for batch in batches
        for row in zip(*(batch[name].tolist() for name in _COLUMNS), strict=True)
    )
    for name, copy in groupby(every, itemgetter(0)):
        starts = Machine(scenarios[name]).run(Message(*row[1:]) for row in copy)
        rows = ((name, m.queue, m.key, at - m.published) for m, at in starts)
        while some := list(islice(rows, _BATCH)):
            yield pd.DataFrame(some, columns=list(_STARTS))


def refuse_absent(texts: Iterable[str], trace: DataFrame) -> None:
    """Refuse scenarios that name what no message of a trace is of.

    Raises:
        RefusedError: it says which.
    """
    for text in texts:
        for queue, key in named(text):
            what, mine = f"queue {queue!r}", trace.where(F.col("queue") == queue)
            if key:
                what = f"key {key!r} in {what}"
                mine = mine.where(F.substring_index("key", "/", 1) == key)
            if mine.isEmpty():
                raise RefusedError(
                    f"scenario {text!r}: the trace has no message of {what}; what there is, is"
                    " shown by python -m celery_fair pipeline waits, and its --by key"
                )
