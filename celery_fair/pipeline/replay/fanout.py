"""Many scenarios of one trace at once: each is one task of Spark's, its trace streamed to it.

A replay is sequential, for each decision depends on all before it. So the trace is joined with the
scenarios, and each scenario's copy goes to one task, in order and in batches. No task needs room
for the whole trace, only for the messages that wait and for one number per message that was
started.
"""

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from celery_fair.pipeline.batches import batch_of, rows_of
from celery_fair.pipeline.replay.machine import Machine
from celery_fair.pipeline.replay.message import Message
from celery_fair.pipeline.replay.outcome import SCHEMA, outcomes
from celery_fair.pipeline.replay.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["replay"]

_COLUMNS = ("scenario", *Message._fields)


def replay(trace: DataFrame, scenarios: list[Scenario], by_key: bool = False) -> DataFrame:
    """One row per scenario and queue, or per scenario, queue and key.

    Arguments:
        trace: as `celery_fair.pipeline.traces` makes it.
        scenarios: of different names.
    """
    for name, absent in (
        ("key", "cast(null as string)"),
        ("handover", "0.0D"),
        ("transit", "0.0D"),
    ):
        if name not in trace.columns:
            trace = trace.withColumn(name, F.expr(absent))
    rows = [(scenario.name, scenario.to_json()) for scenario in scenarios]
    supposed = trace.sparkSession.createDataFrame(rows, "name string, scenario string")
    copies = trace.crossJoin(supposed.hint("broadcast")).select(*_COLUMNS)
    return (
        copies.repartition(len(scenarios), "scenario")
        .sortWithinPartitions(
            "scenario", F.col("published") + F.col("transit"), "published", "queue", "runtime"
        )
        .mapInPandas(partial(_replayed, by_key), SCHEMA)
    )


def _replayed(by_key: bool, batches: Iterator["pd.DataFrame"]) -> Iterator["pd.DataFrame"]:
    every = (row for batch in batches for row in rows_of(batch, _COLUMNS))
    for text, rows in groupby(every, itemgetter(0)):
        scenario = Scenario.from_json(text)
        starts = Machine(scenario).run(Message(*row[1:]) for row in rows)
        made = sorted(outcomes(starts, by_key).items(), key=lambda item: str(item[0]))
        found = [outcome.row(scenario.name, *whose) for whose, outcome in made]
        yield batch_of(found, SCHEMA)
