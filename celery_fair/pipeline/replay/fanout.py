"""Many scenarios of one trace at once: each is one task of Spark's, its trace streamed to it.

A replay is sequential, for each decision depends on all before it. So the trace is joined with the
scenarios, and each scenario's copy goes in order to one task, in batches: none needs room for the
whole trace, but for the messages that wait and one number for each that was started.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from celery_fair.pipeline.replay.machine import Machine, Message
from celery_fair.pipeline.replay.outcome import SCHEMA, outcomes
from celery_fair.pipeline.replay.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["replay"]

_COLUMNS = ("scenario", "published", "queue", "task", "cost_key", "runtime")


def replay(trace: DataFrame, scenarios: list[Scenario]) -> DataFrame:
    """One row per scenario and queue.

    Arguments:
        trace: as `celery_fair.pipeline.traces` makes it.
        scenarios: of different names.
    """
    rows = [(scenario.name, scenario.to_json()) for scenario in scenarios]
    supposed = trace.sparkSession.createDataFrame(rows, "name string, scenario string")
    copies = trace.crossJoin(supposed.hint("broadcast")).select(*_COLUMNS)
    return (
        copies.repartition(len(scenarios), "scenario")
        .sortWithinPartitions("scenario", "published", "queue", "runtime")
        .mapInPandas(_replayed, SCHEMA)
    )


def _replayed(batches: Iterator["pd.DataFrame"]) -> Iterator["pd.DataFrame"]:
    import pandas as pd

    names = [column.split()[0] for column in SCHEMA.split(", ")]
    for text, rows in groupby(_rows(batches), itemgetter(0)):
        scenario = Scenario.from_json(text)
        made = outcomes(Machine(scenario).run(Message(*row[1:]) for row in rows))
        found = [outcome.row(scenario.name, queue) for queue, outcome in sorted(made.items())]
        yield pd.DataFrame(found, columns=names)


def _rows(batches: Iterator["pd.DataFrame"]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(batch[name].tolist() for name in _COLUMNS), strict=True)
