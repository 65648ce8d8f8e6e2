"""One table made by one engine, in a process of its own.

    python -m benchmarks.pipeline.jobs spark|lean|duckdb TABLE WAREHOUSE FOLDER MEMORY [MASTER]

Prints as JSON how long it took, without the start of the engine. Both read the same silver files.
Spark makes the whole table, as the commands do; *lean* asks Spark in a sentence of SQL, see
`benchmarks.pipeline.lean_gold`; DuckDB is asked by the tests' oracle, in `tests/pipeline/oracle`,
by other formulas.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

from celery_fair.pipeline.warehouse import read_pointer

__all__ = ["GOLD", "INTERVAL", "SILVER", "folders", "published", "question", "view"]

GOLD = ("fairness", "audit", "waits", "costs", "capacity")
INTERVAL = 60.0
SILVER = ("attempts", "backlog", "processes")


def spark(table: str, warehouse: Path, _: Path, memory: str, master: str | None = None) -> float:
    """Make `table` as the commands do.

    Arguments:
        memory: of the driver, and of each executor of a cluster.
    """
    from celery_fair.cli.pipeline.context import Context
    from celery_fair.pipeline.gold.costs import costs
    from celery_fair.pipeline.gold.fairness import fairness
    from celery_fair.pipeline.gold.waits import capacity, waits
    from celery_fair.pipeline.publish import publish, publish_audit

    conf = {"spark.executor.memory": memory}
    made = Context(master, memory, conf, as_json=True, quiet=True).warehouse(warehouse)

    def say(_: str) -> None:
        pass

    makers: dict[str, Callable[[], Any]] = {
        "fairness": lambda: publish(made, say, fairness, interval=INTERVAL),
        "audit": lambda: publish_audit(made, say),
        "waits": lambda: publish(made, say, waits),
        "costs": lambda: publish(made, say, costs),
        "capacity": lambda: publish(made, say, capacity, interval=INTERVAL),
    }
    began = monotonic()
    makers[table]()
    seconds = monotonic() - began
    made.spark.stop()
    return seconds


def lean(table: str, warehouse: Path, folder: Path, memory: str) -> float:
    """Answer it in a sentence of SQL, in a session like the command's; rows go into `folder`."""
    from benchmarks.pipeline.lean_gold import answer
    from celery_fair.cli.pipeline.context import Context

    session = Context(None, memory, {}, as_json=True, quiet=True).warehouse(warehouse).spark
    began = monotonic()
    answer(session, table, warehouse, folder / "lean" / table)
    seconds = monotonic() - began
    session.stop()
    return seconds


def duckdb(table: str, warehouse: Path, folder: Path, memory: str) -> float:
    """Answer the oracle's question; the rows go into `folder`.

    That of the audit is asked about the doubts that Spark has found last.
    """
    import duckdb as engine

    with engine.connect(config={"memory_limit": memory, "temp_directory": str(folder)}) as asked:
        for name in SILVER if table != "audit" else (*SILVER, "doubts"):
            asked.execute(f"CREATE VIEW {name} AS {view(warehouse, name)}")
        began = monotonic()
        asked.execute(f"COPY ({question(table)}) TO '{folder / table}.parquet' (FORMAT parquet)")
        return monotonic() - began


def question(table: str) -> str:
    """Return what the tests' oracle asks."""
    from tests.pipeline import oracle

    asked = Path(oracle.__file__).with_name(f"{table}.sql").read_text()
    return asked.replace("$interval", str(INTERVAL))


def folders(warehouse: Path, table: str) -> list[Path]:
    """Return a table's folders."""
    return [warehouse / each for each in read_pointer(warehouse).tables[table]]


def published(warehouse: Path, table: str) -> str:
    """Return a list of a table's files, as DuckDB writes it."""
    return "[" + ", ".join(f"'{each}/*.parquet'" for each in folders(warehouse, table)) + "]"


def view(warehouse: Path, table: str) -> str:
    """Return a query for the whole table."""
    rows = f"SELECT * EXCLUDE (run) FROM {_files(warehouse, table)} AS t"
    if table == "doubts":  # one row for each queue that one is about
        queues = "unnest(coalesce(queues, [NULL])) AS queue"
        return f"SELECT * EXCLUDE (queues), {queues} FROM {_files(warehouse, table)}"
    if table != "attempts":
        return rows
    stale = f"SELECT 1 FROM {_files(warehouse, 'replaced')} AS r"
    return f"{rows} WHERE NOT EXISTS ({stale} WHERE r.id = t.id AND r.stale = t.run)"


def _files(warehouse: Path, table: str) -> str:
    return f"read_parquet({published(warehouse, table)}, hive_partitioning = true)"


def main() -> None:
    engine, table, warehouse, folder, memory, *master = sys.argv[1:]
    make: Callable[..., float] = {"spark": spark, "lean": lean, "duckdb": duckdb}[engine]
    print(json.dumps({"seconds": make(table, Path(warehouse), Path(folder), memory, *master)}))


if __name__ == "__main__":
    main()
