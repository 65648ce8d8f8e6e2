"""Tables as Parquet in versioned folders: ``<warehouse>/<table>/run=<number>-<random>/``.

A table is one folder or several; what has been published never changes. A run writes its own
folders, then the pointer. Some tables are replaced as a whole; others grow by a folder per run, and
folders that have become many are put together (`overgrown`). Where a run has made rows anew of
which a folder before has older ones, the table `replaced` names these by folder and id, and who
reads the table leaves them out: so much less is written than if that folder were written again.
"""

import re
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.pointer import Pointer, read_pointer, write_pointer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["REPLACED", "Run", "Warehouse", "overgrown"]

REPLACED = "replaced"
"""The table of the rows of `attempts` that no longer count: of an `id`, in the run `stale`."""

_IN_PART = "attempts"
"""The table of which rows are replaced one by one."""

_NAMED = re.compile(r"(\d{6,})-[0-9a-f]{6}$")
"""How the name of what a run has written ends: its version, and its own mark."""

_SCRATCH = ".scratch-"

FEW = 8
"""Folders of a table that are not worth putting together."""


class Warehouse:
    """A folder that driver and executors see under one path.

    Arguments:
        spark: reads and writes.
        root: the folder.
    """

    def __init__(self, spark: "SparkSession", root: Path) -> None:
        self.spark = spark
        self.root = root.absolute()

    def has(self, table: str) -> bool:
        """Whether the table has been published."""
        return table in read_pointer(self.root).tables

    def table(self, name: str) -> "DataFrame":
        """Return a table of the present version.

        Raises:
            PipelineError: there is none of the name.
        """
        return self.of(read_pointer(self.root), name)

    def of(self, pointer: Pointer, name: str) -> "DataFrame":
        """Return a table of some version.

        Raises:
            PipelineError: there is none of the name.
        """
        folders = pointer.tables.get(name)
        if not folders:
            raise PipelineError(
                f"{self.root} has no table {name!r}; fill it first: "
                f"python -m celery_fair pipeline ingest LOGS {self.root}"
            )
        return self.rows(pointer, name).drop("run")

    def rows(self, pointer: Pointer, name: str) -> "DataFrame":
        """Return a table that has rows or may have, with the `run` that wrote each."""
        rows = self.read(pointer.tables[name], pointer.schemas[name])
        if name == _IN_PART and pointer.tables.get(REPLACED):
            # Which column is the run that is meant, and which the one that has said so.
            stale = self.read(pointer.tables[REPLACED], pointer.schemas[REPLACED])
            stale = stale.select("id", "stale").withColumnRenamed("stale", "run")
            rows = rows.join(stale, ["run", "id"], "left_anti")
        return rows

    def read(self, folders: Sequence[str], schema: "StructType | str") -> "DataFrame":
        """Return what certain folders, all of one table, hold, and the `run` that wrote it."""
        ddl = schema if isinstance(schema, str) else schema.toDDL()
        paths = [str(self.root / folder) for folder in folders]
        base = str(self.root / folders[0].partition("/")[0])
        reader = self.spark.read.option("basePath", base).schema(f"{ddl}, run string")
        return reader.parquet(*paths)

    def begin(self) -> "Run":
        """Begin the next version."""
        self.root.mkdir(parents=True, exist_ok=True)
        return Run(self, read_pointer(self.root))


class Run:
    """The next version while it is being written. Nothing is seen of it before `publish`."""

    def __init__(self, warehouse: Warehouse, before: Pointer) -> None:
        self.warehouse = warehouse
        self._before = before
        self._after = Pointer(before.version + 1, dict(before.tables), dict(before.schemas))
        self._is_seen = False
        self._number = f"{before.version + 1:06d}-{secrets.token_hex(3)}"

    @property
    def version(self) -> int:
        return self._after.version

    def has(self, table: str) -> bool:
        """Whether there is such a table, in this version or the one before."""
        return table in self._after.tables

    def known(self, table: str, schema: "StructType | str") -> "DataFrame":
        """Return the table as this run has it so far; empty if there is none.

        A column that it did not have when it was written is null.
        """
        if not self.has(table):
            return self.warehouse.spark.createDataFrame([], schema)
        wanted = self._after.schemas | {table: _ddl(schema)}
        return self.warehouse.of(Pointer(0, self._after.tables, wanted), table)

    def rows(self, table: str, before: bool = False) -> "DataFrame":
        """Return a table that there is, with the `run` that wrote each row.

        Arguments:
            before: without what this run has written.
        """
        return self.warehouse.rows(self._before if before else self._after, table)

    def schema(self, table: str) -> str:
        """Return the columns of a table that there is."""
        return self._after.schemas[table]

    def replace(self, table: str, rows: "DataFrame") -> "DataFrame":
        """Write the whole table; return it as it was written."""
        folder = self._write(table, rows)
        self._after = self._after.with_table(table, [folder], _ddl(rows.schema))
        return self.warehouse.read([folder], rows.schema).drop("run")

    def extend(self, table: str, rows: "DataFrame") -> "DataFrame":
        """Write further rows of a table; return those."""
        return self.adopt(table, self._write(table, rows), rows.schema)

    def adopt(self, table: str, folder: str, schema: "StructType") -> "DataFrame":
        """Let a folder that this run has written be part of a table; return what is in it."""
        folders = [*self._after.tables.get(table, []), folder]
        self._after = self._after.with_table(table, folders, _ddl(schema))
        return self.warehouse.read([folder], schema).drop("run")

    def split(self, rows: "DataFrame", by: str, tables: Sequence[str]) -> dict[str, str]:
        """Write rows once, to the table that the column `by` names; return each table's folder."""
        root = self.warehouse.root
        together = self.scratch("staged") / "run=0"
        rows.write.partitionBy(by).parquet(str(together))
        found = {}
        for table in tables:
            written = together / f"{by}={table}"
            if written.is_dir():
                found[table] = self._folder(table)
                (root / table).mkdir(exist_ok=True)
                written.rename(root / found[table])
        shutil.rmtree(together.parent)
        return found

    def scratch(self, name: str) -> Path:
        """Make a folder for what this run needs for a while; return it."""
        folder = self.warehouse.root / f"{_SCRATCH}{name}-{self._number}"
        folder.mkdir()
        return folder

    def _scratches(self, number: str = "*") -> list[Path]:
        return list(self.warehouse.root.glob(f"{_SCRATCH}*-{number}"))

    def remove(self, folder: str) -> None:
        """Remove a folder that only this run has seen."""
        shutil.rmtree(self.warehouse.root / folder, ignore_errors=True)

    def compact(self, table: str) -> None:
        """Put folders of a table together that have become many."""
        folders = self._after.tables.get(table, [])
        sizes = self._sizes(table)
        first = overgrown(sizes)
        if table == _IN_PART and sum(self._sizes(REPLACED)) > sum(sizes) / 10:
            first = 0
        if first == len(folders):
            return
        from pyspark.sql import functions as F

        schema = self._after.schemas[table]
        several = self._after.with_table(table, folders[first:], schema)
        rows = self.warehouse.of(several, table)
        folder = self._write(table, rows)
        self._after = self._after.with_table(table, [*folders[:first], folder], schema)
        for written in folders[first:]:
            if written.endswith(self._number):
                self.remove(written)
        if table == _IN_PART and REPLACED in self._after.tables:
            stale = self.rows(REPLACED).where(F.col("stale").isin(self.runs(table)))
            self.replace(REPLACED, stale.drop("run"))

    def _sizes(self, table: str) -> list[int]:
        folders = self._after.tables.get(table, [])
        return [_size(self.warehouse.root / folder) for folder in folders]

    def runs(self, table: str) -> list[str]:
        """Return the runs whose folders make up a table."""
        return [folder.rpartition("run=")[2] for folder in self._after.tables.get(table, [])]

    def publish(self) -> None:
        """Let others see this version, and remove what belongs neither to it nor to the one before.

        Raises:
            PipelineError: another run has published meanwhile.
        """
        write_pointer(self.warehouse.root, self._before, self._after)
        self._is_seen = True
        needed = {f for p in (self._before, self._after) for fs in p.tables.values() for f in fs}
        for path in self.warehouse.root.glob("*/run=*"):
            if self._is_past(path) and f"{path.parent.name}/{path.name}" not in needed:
                shutil.rmtree(path, ignore_errors=True)
        for path in self._scratches():
            if self._is_past(path):
                shutil.rmtree(path, ignore_errors=True)

    def discard(self) -> None:
        """Remove what this run has written, unless others can see it."""
        if self._is_seen:
            return
        root = self.warehouse.root
        for path in (*root.glob(f"*/run=*{self._number}"), *self._scratches(self._number)):
            shutil.rmtree(path, ignore_errors=True)

    def _write(self, table: str, rows: "DataFrame") -> str:
        folder = self._folder(table)
        rows.write.parquet(str(self.warehouse.root / folder))
        return folder

    def _folder(self, table: str) -> str:
        """Return the name of a folder that is not there yet."""
        names = (f"{table}/run={again}{self._number}" for again in ("", "a-", "b-", "c-"))
        return next(name for name in names if not (self.warehouse.root / name).exists())

    def _is_past(self, path: Path) -> bool:
        """Whether it belongs to an earlier version, and not to another run that is under way."""
        named = _NAMED.search(path.name)
        return named is not None and int(named[1]) < self._after.version


def overgrown(sizes: Sequence[int]) -> int:
    """Return from which folder on they are to be put together; the number of folders if from none.

    When there are more than a `FEW`, each is to be larger than all after it together: they are then
    as many as the logarithm of the table's size, and a row is written anew as often at the most.
    """
    if len(sizes) > FEW:
        for first, size in enumerate(sizes[:-1]):
            if size <= sum(sizes[first + 1 :]):
                return first
    return len(sizes)


def _ddl(schema: "StructType | str") -> str:
    return schema if isinstance(schema, str) else str(schema.toDDL())


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))
