"""Silver, made again where new events touch it, and nowhere else.

A row of silver is made of all events of one key: an attempt of those of its task's id, a process's
life, its gaps, and its queues' states and settings of those of the process. For the keys of which
there are new events, the earlier ones are sought: first, reading nothing but the keys, the files
that they are in, and then these files are read. What the other keys have stays. So a table is
always what it would be if it were made of all events at once, in whatever order they have come.

Of attempts not even the rows that stay are written again, as they are the most by far: the new ones
go into a folder of their own, and `replaced` says which of the older ones no longer count.
"""

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from celery_fair.pipeline.bronze import EVENTS
from celery_fair.pipeline.numbering import PROCESS
from celery_fair.pipeline.silver.attempts import attempts
from celery_fair.pipeline.silver.processes import gaps, lives
from celery_fair.pipeline.silver.queues import backlog, settings
from celery_fair.pipeline.warehouse import REPLACED, Warehouse

_BY_PROCESS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "lives": lives,
    "backlog": backlog,
    "settings": settings,
}


def renew_attempts(warehouse: Warehouse, new: DataFrame) -> None:
    """Bring the table `attempts` up to date."""
    if warehouse.has("attempts"):
        ids = new.where("id is not null").select("id").distinct()
        older = (
            warehouse.rows("attempts").join(ids, "id", "left_semi").selectExpr("run as stale", "id")
        )
        stale = warehouse.extend(REPLACED, older.distinct())
        earlier = _earlier(warehouse, stale.select("id").distinct(), ["id"])
        new = new if earlier is None else new.unionByName(earlier)
    else:
        warehouse.extend(REPLACED, warehouse.known(REPLACED, "stale string, id string"))
    warehouse.extend("attempts", attempts(new))


def renew_by_process(warehouse: Warehouse, new: DataFrame) -> None:
    """Bring the tables up to date that have all of a process made at once."""
    touched = new.select(*PROCESS).distinct()
    earlier = _earlier(warehouse, touched, PROCESS) if warehouse.has("lives") else None
    if earlier is None:  # all of these processes are new: no row is of one of them
        renewed = None
    else:
        new, renewed = new.unionByName(earlier), touched
    for name, make in _BY_PROCESS.items():
        _renew(warehouse, name, make(new), renewed)
    _renew(warehouse, "gaps", gaps(new, warehouse.table("lives")), renewed)


def _renew(warehouse: Warehouse, table: str, made: DataFrame, renewed: DataFrame | None) -> None:
    """Add rows of processes; those that are there of the processes that are renewed go."""
    if warehouse.has(table):
        before = warehouse.known(table, made.schema)
        if renewed is not None:
            before = before.join(renewed, list(PROCESS), "left_anti")
        made = made.unionByName(before)
    warehouse.replace(table, made)


def _earlier(warehouse: Warehouse, keys: DataFrame, by: Sequence[str]) -> DataFrame | None:
    """Return the events of certain keys that earlier runs have read; None if there are none."""
    every = warehouse.rows("events", before=True)
    where = every.select(*by, "run", F.col("_metadata.file_name").alias("name"))
    # A file has what was in some files of the log, of few processes and of a short time.
    files = where.join(keys, list(by), "left_semi").select("run", "name").distinct().collect()
    if not files:
        return None
    paths = [f"events/run={row['run']}/{row['name']}" for row in files]
    found = warehouse.read(paths, EVENTS).drop("run")
    return found.join(keys, list(by), "left_semi").select(*found.columns)
