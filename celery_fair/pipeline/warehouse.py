"""Tables as Parquet in versioned folders: ``<warehouse>/<table>/run=<number>-<random>/``.

A table is one folder or several; what has been published never changes. A run writes its own
folders, then the pointer. Bronze tables grow by one folder per run; the others are replaced.
"""

import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.pointer import Pointer, read_pointer, write_pointer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["Run", "Warehouse"]


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
        folders = read_pointer(self.root).tables.get(name)
        if not folders:
            raise PipelineError(
                f"{self.root} has no table {name!r}; fill it first: "
                f"python -m celery_fair pipeline ingest LOGS {self.root}"
            )
        return self.read(folders)

    def read(self, folders: list[str], schema: "StructType | None" = None) -> "DataFrame":
        """Return what certain folders, all of one table, hold.

        Arguments:
            schema: theirs, if it is known; to find out takes Spark a job.
        """
        paths = [str(self.root / folder) for folder in folders]
        base = str((self.root / folders[0]).parent)
        reader = self.spark.read.option("basePath", base).option("mergeSchema", True)
        if schema is not None:
            reader = reader.schema(schema)
        return reader.parquet(*paths).drop("run")

    def begin(self) -> "Run":
        """Begin the next version."""
        self.root.mkdir(parents=True, exist_ok=True)
        return Run(self, read_pointer(self.root))


class Run:
    """The next version while it is being written. Nothing is seen of it before `publish`."""

    def __init__(self, warehouse: Warehouse, before: Pointer) -> None:
        self.warehouse = warehouse
        self._before = before
        self._after = Pointer(before.version + 1, dict(before.tables))
        self._label = f"run={before.version + 1:06d}-{secrets.token_hex(3)}"

    @property
    def version(self) -> int:
        return self._after.version

    def has(self, table: str) -> bool:
        """Whether there is such a table, in this version or the one before."""
        return table in self._after.tables

    def known(self, table: str, schema: "StructType") -> "DataFrame":
        """Return the table as this run has it so far; empty if there is none."""
        folders = self._after.tables.get(table)
        if folders:
            return self.warehouse.read(folders)
        return self.warehouse.spark.createDataFrame([], schema)

    def replace(self, table: str, rows: "DataFrame", partition: str | None = None) -> "DataFrame":
        """Write the whole table; return it as it was written."""
        folder = self._write(table, rows, partition)
        self._after = self._after.with_table(table, [folder])
        return self.warehouse.read([folder], rows.schema)

    def extend(self, table: str, rows: "DataFrame", partition: str | None = None) -> "DataFrame":
        """Write further rows of a table; return those."""
        folder = self._write(table, rows, partition)
        path = self.warehouse.root / folder
        if next(path.rglob("*.parquet"), None) is None:
            # What has partitions and no rows has no files, and so no schema to be read with.
            shutil.rmtree(path)
            return self.warehouse.spark.createDataFrame([], rows.schema)
        folders = [*self._after.tables.get(table, []), folder]
        self._after = self._after.with_table(table, folders)
        return self.warehouse.read([folder], rows.schema)

    def drop(self, table: str) -> None:
        """Remove a table that only this run needed."""
        folders = self._after.tables.pop(table)
        for folder in folders:
            shutil.rmtree(self.warehouse.root / folder, ignore_errors=True)

    def publish(self) -> None:
        """Let others see this version, and remove what belongs neither to it nor to the one before.

        Raises:
            PipelineError: another run has published meanwhile.
        """
        write_pointer(self.warehouse.root, self._before, self._after)
        needed = {f for p in (self._before, self._after) for fs in p.tables.values() for f in fs}
        for table in self._after.tables:
            for path in (self.warehouse.root / table).glob("run=*"):
                if self._is_past(path) and f"{table}/{path.name}" not in needed:
                    shutil.rmtree(path, ignore_errors=True)

    def discard(self) -> None:
        """Remove what this run has written, instead of publishing it."""
        for path in self.warehouse.root.glob(f"*/{self._label}"):
            shutil.rmtree(path, ignore_errors=True)

    def _write(self, table: str, rows: "DataFrame", partition: str | None) -> str:
        folder = f"{table}/{self._label}"
        writer = rows.write.mode("overwrite")
        if partition is not None:
            writer = writer.partitionBy(partition)
        writer.parquet(str(self.warehouse.root / folder))
        return folder

    def _is_past(self, path: Path) -> bool:
        """Whether it belongs to an earlier version, and not to another run that is under way."""
        return int(path.name.removeprefix("run=").split("-")[0]) < self._after.version
