"""Whether Spark's rows are DuckDB's: the same keys, and under each key the same values.

Sums are added up in another order by each, so that numbers may differ by a millionth. Spark's
quantiles may be off by a rank in ten thousand (see `celery_fair.pipeline.gold.waits`): each must
lie between DuckDB's of that much less and that much more.
"""

from pathlib import Path
from typing import NamedTuple

import duckdb

from benchmarks.pipeline.jobs import INTERVAL, view

__all__ = ["Agreement", "compared"]

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
    "capacity": ("published", "started"),
}
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
RANK = 1e-4


class Agreement(NamedTuple):
    """How many rows there are, and how many of one engine have no equal of the other's."""

    rows: int
    differing: int


def compared(table: str, warehouse: Path, folder: Path, memory: str) -> Agreement:
    """Compare the published table with DuckDB's in `folder`."""
    keys = " AND ".join(f"s.{key} IS NOT DISTINCT FROM d.{key}" for key in KEYS[table])
    question = f"""
        SELECT count(*), count(*) FILTER (
            NOT coalesce(s.present AND d.present AND {_same(table)}, false))
        FROM (SELECT *, true AS present FROM ({_of_spark(table, warehouse)})) s
        FULL JOIN (SELECT *, true AS present FROM ({_of_duckdb(table, warehouse, folder)})) d
        ON {keys}
    """
    with duckdb.connect(config={"memory_limit": memory, "temp_directory": str(folder)}) as asked:
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
        f"quantile_disc(wait, {part - RANK}) AS {name}_least,"
        f" quantile_disc(wait, {part + RANK}) AS {name}_most"
        for name, part in QUANTILES.items()
    )
    attempts = view(warehouse, "attempts")
    bounded = f"SELECT queue, {bounds} FROM ({attempts}) WHERE starts > 0 GROUP BY queue"
    return f"SELECT * FROM ({rows}) JOIN ({bounded}) USING (queue)"
