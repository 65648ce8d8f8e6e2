"""Whether Spark's rows are DuckDB's: the same keys, and under each key the same values.

Sums are added up in another order by each, so that numbers may differ by a millionth. Spark's
quantiles may be off by a rank in ten thousand (see `celery_fair.pipeline.gold.waits`), rounded to
whole ranks: each must lie between the values that stand that much before and behind it.
"""

from pathlib import Path
from typing import NamedTuple

import duckdb

from benchmarks.pipeline.jobs import INTERVAL, view

__all__ = ["Agreement", "attempts_compared", "compared"]

KEYS = {
    "fairness": ("node", "worker", "queue", "bucket"),
    "audit": ("id",),
    "waits": ("queue",),
    "costs": ("task", "cost_key"),
    "capacity": ("since",),
}
NUMBERS = {
    "fairness": ("served", "seconds", "due", "total"),
    "audit": (),
    "waits": (),
    "costs": ("mean", "task_mean", "estimate"),
    "capacity": ("busy_seconds", "slot_seconds"),
}
EXACT = {
    "fairness": (),
    "audit": ("verdict",),
    "waits": ("started", "timed", "skewed"),
    "costs": ("n",),
    "capacity": (),
}
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
RANK = 1e-4


class Agreement(NamedTuple):
    """How many rows there are, and how many of one way have no equal of the other's."""

    rows: int
    differing: int


def compared(
    table: str, warehouse: Path, folder: Path, memory: str, lean: bool = False
) -> Agreement:
    """Compare the published table, or else the lean one in `folder`, with DuckDB's there."""
    rows = f"SELECT * FROM read_parquet('{folder}/lean/{table}/*.parquet')"
    rows = rows if lean else _of_spark(table, warehouse)
    keys = " AND ".join(f"s.{key} IS NOT DISTINCT FROM d.{key}" for key in KEYS[table])
    question = f"""
        SELECT count(*), count(*) FILTER (
            NOT coalesce(s.present AND d.present AND {_same(table)}, false))
        FROM (SELECT *, true AS present FROM ({rows})) s
        FULL JOIN (SELECT *, true AS present FROM ({_of_duckdb(table, warehouse, folder)})) d
        ON {keys}
    """
    with duckdb.connect(config={"memory_limit": memory, "temp_directory": str(folder)}) as asked:
        found = asked.execute(question).fetchone()
    assert found is not None
    return Agreement(*found)


def attempts_compared(warehouse: Path, other: Path, memory: str) -> Agreement:
    """Compare the attempts that ingest has made with those of a lean one."""
    numbers = ("starts", "finishes", "rejections")
    same = " AND ".join(f"o.{name} = l.{name}" for name in numbers)
    lean = f"read_parquet('{other}/attempts{'/*' if other.name == 'spark' else ''}.parquet')"
    question = f"""
        SELECT count(*), count(*) FILTER (NOT coalesce({same}, false))
        FROM ({view(warehouse, "attempts")}) o FULL JOIN {lean} l USING (id, retries)
    """
    with duckdb.connect(config={"memory_limit": memory}) as asked:
        found = asked.execute(question).fetchone()
    assert found is not None
    return Agreement(*found)


def _same(table: str) -> str:
    exact = [f"s.{name} IS NOT DISTINCT FROM d.{name}" for name in EXACT[table]]
    numbers = [
        f"abs(s.{name} - d.{name}) <= 1e-6 * greatest(abs(s.{name}), abs(d.{name})) + 1e-9"
        for name in NUMBERS[table]
    ]
    between = [f"s.{name} BETWEEN d.{name}_least AND d.{name}_most" for name in QUANTILES]
    return " AND ".join(exact + numbers + (between if table == "waits" else []))


def _of_spark(table: str, warehouse: Path) -> str:
    rows = view(warehouse, table)
    if table != "fairness":
        return rows
    # The oracle leaves out those that were alone.
    return f"SELECT *, since / {INTERVAL} AS bucket FROM ({rows}) WHERE total IS NOT NULL"


def _of_duckdb(table: str, warehouse: Path, folder: Path) -> str:
    rows = f"SELECT * FROM read_parquet('{folder / table}.parquet')"
    if table != "waits":
        return rows
    bounds = ", ".join(
        f"sorted[greatest(1, floor({part - RANK} * n)::BIGINT)] AS {name}_least,"
        f" sorted[least(n, ceil({part + RANK} * n)::BIGINT + 1)] AS {name}_most"
        for name, part in QUANTILES.items()
    )
    waits = f"SELECT queue, started_at - published AS wait FROM ({view(warehouse, 'attempts')})"
    timed = f"SELECT * FROM ({waits}) WHERE wait IS NOT NULL"
    all_ = (
        f"SELECT queue, list(wait ORDER BY wait) AS sorted, count(*) AS n FROM ({timed}) GROUP BY 1"
    )
    return f"SELECT * FROM ({rows}) JOIN (SELECT queue, {bounds} FROM ({all_})) USING (queue)"
