"""Tables as Parquet in folders that never change, and a pointer to those of the present version.

::

    <warehouse>/current.json               the pointer: the folders of each table
    <warehouse>/<table>/run=<mark>-<n>/    what a run has written of a table
    <warehouse>/.scratch-…-<mark>          what a run needs for a while
    <warehouse>/.used                      locked, together, by all who read or write here
    <warehouse>/.ingest                    locked by the one who ingests

A table is one folder or several. A run writes its own folders, then the pointer, which is replaced
as a whole: a reader sees one whole version or the next one. What was being written when the program
died is not pointed at, as if it had never been there. An ingest that finds nobody else at work
removes all that is not pointed at. Locks end with their process, however that ends.

The folder may be on any file system that is mounted under one path on each machine that reads or
writes it, and has renames and locks.

Some tables are replaced as a whole; others grow by a folder per run, and folders that have become
many are put together (`overgrown`). Where a run has made rows anew of which a folder before has
older ones, the table `replaced` names these by folder and id, and who reads the table leaves them
out: so much less is written than if that folder were written again.
"""

import json
import os
import re
import secrets
import shutil
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.log_files import unglobbed
from celery_fair.pipeline.whole_file import whole_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMAT = 2
"""Of the pointer, and of the tables that it names."""

REPLACED = "replaced"
"""The table of the rows of `attempts` that no longer count: of an `id`, in the run `stale`."""

_IN_PART = "attempts"
"""The table of which rows are replaced one by one."""

FEW = 8
"""Folders of a table that are not worth putting together."""

_POINTER, _USED, _INGEST = "current.json", ".used", ".ingest"


@dataclass(frozen=True)
class Pointer:
    """A version of the warehouse.

    Attributes:
        version: its number.
        tables: the folders of each table, relative to the warehouse.
        schemas: the columns of each table, as DDL: to find them out takes Spark a job.
    """

    version: int = 0
    tables: dict[str, list[str]] = field(default_factory=dict)
    schemas: dict[str, str] = field(default_factory=dict)

    @property
    def folders(self) -> set[str]:
        """Those of all tables."""
        return {folder for folders in self.tables.values() for folder in folders}


def read_pointer(root: Path) -> Pointer:
    """Return the present version; an empty one where nothing has been published.

    Raises:
        PipelineError: it is of another format.
    """
    try:
        found: dict[str, Any] = json.loads((root / _POINTER).read_text())
        if found["v"] != FORMAT:
            raise PipelineError(
                f"{root} is a warehouse of format {found['v']}, and this celery-fair reads"
                f" {FORMAT}: use the version that wrote it, or ingest the logs into a new folder"
            )
        return Pointer(int(found["version"]), found["tables"], found["schemas"])
    except FileNotFoundError:
        return Pointer()
    except (ValueError, KeyError, TypeError) as exc:
        raise PipelineError(
            f"the pointer in {root} does not say which version is present ({exc!r}): is this"
            " a warehouse?"
        ) from exc


class _Lock:
    """Holds a lock on a file until it is released, or its owner is gone.

    Raises:
        OSError: it cannot be had.
    """

    def __init__(self, path: Path, how: int) -> None:
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self.release = weakref.finalize(self, os.close, opened)
        flock(opened, how)


class Warehouse:
    """A folder that driver and executors see under one path: the version that is present when this
    is made, and what is written by this object. What others publish meanwhile is not seen, and
    nothing of what is seen is removed.

    Arguments:
        spark: reads and writes.
        root: the folder.

    Attributes:
        pointer: what it has read and written.
    """

    def __init__(self, spark: "SparkSession", root: Path) -> None:
        self.spark = spark
        self.root = root.absolute()
        self._mark, self._count = secrets.token_hex(3), count()
        self._written: set[str] = set()
        self._use: _Lock | None = None
        if (self.root / _POINTER).exists():
            with suppress(OSError):  # the folder is another user's, or the disk is full
                self._use = _Lock(self.root / _USED, LOCK_SH)
        self.pointer = self._published = read_pointer(self.root)

    # Reading --------------------------------------------------------------------

    def has(self, table: str) -> bool:
        """Whether there is such a table."""
        return table in self.pointer.tables

    def table(self, name: str) -> "DataFrame":
        """Return a table.

        Raises:
            PipelineError: there is none of the name.
        """
        if not self.has(name):
            raise PipelineError(
                f"{self.root} has no table {name!r}; fill it first: "
                f"python -m celery_fair pipeline ingest LOGS {self.root}"
            )
        return self.rows(name).drop("run")

    def known(self, table: str, schema: "StructType | str") -> "DataFrame":
        """Return a table; an empty one if there is none."""
        return self.table(table) if self.has(table) else self.spark.createDataFrame([], schema)

    def rows(self, table: str, before: bool = False) -> "DataFrame":
        """Return a table that there is, with the `run` that wrote each row.

        Arguments:
            before: without what was written since the last version was published.
        """
        pointer = self._published if before else self.pointer
        return self._counted(pointer, table, pointer.tables[table])

    def _counted(self, pointer: Pointer, table: str, folders: Sequence[str]) -> "DataFrame":
        """Return what some folders of a table hold, but for rows that no longer count."""
        rows = self.read(folders, pointer.schemas[table])
        if table == _IN_PART and REPLACED in pointer.tables:
            # Which column is the run that is meant, and which the one that has said so.
            stale = self.read(pointer.tables[REPLACED], pointer.schemas[REPLACED])
            stale = stale.select("id", "stale").withColumnRenamed("stale", "run")
            rows = rows.join(stale, ["run", "id"], "left_anti")
        return rows

    def read(self, folders: Sequence[str], schema: "StructType | str") -> "DataFrame":
        """Return what certain folders, all of one table, hold, and the `run` that wrote it."""
        paths = [unglobbed(address(self.root / folder)) for folder in folders]
        base = address(self.root / folders[0].partition("/")[0])
        reader = self.spark.read.option("basePath", base).schema(f"{_ddl(schema)}, run string")
        return reader.parquet(*paths)

    # Writing --------------------------------------------------------------------

    def replace(self, table: str, rows: "DataFrame") -> "DataFrame":
        """Write the whole table; return it as it was written."""
        return self._consists(table, [], self._write(table, rows), rows.schema)

    def extend(self, table: str, rows: "DataFrame") -> "DataFrame":
        """Write further rows of a table; return those."""
        return self.adopt(table, self._write(table, rows), rows.schema)

    def adopt(self, table: str, folder: str, schema: "StructType | str") -> "DataFrame":
        """Let a folder that was just written be part of a table; return what is in it."""
        return self._consists(table, self.pointer.tables.get(table, []), folder, schema)

    def _consists(
        self, table: str, others: list[str], folder: str, schema: "StructType | str"
    ) -> "DataFrame":
        tables = {**self.pointer.tables, table: [*others, folder]}
        schemas = {**self.pointer.schemas, table: _ddl(schema)}
        self.pointer = replace(self.pointer, tables=tables, schemas=schemas)
        return self.read([folder], schema).drop("run")

    def split(self, rows: "DataFrame", by: str, tables: Sequence[str]) -> dict[str, str]:
        """Write rows once, to the table that the column `by` names; return each table's folder."""
        together = self.root / self.scratch("staged") / "run=0"
        rows.write.partitionBy(by).mode("overwrite").parquet(address(together))
        found = {}
        for table in tables:
            written = together / f"{by}={table}"
            if written.is_dir():
                found[table] = self._folder(table)
                (self.root / table).mkdir(exist_ok=True)
                written.rename(self.root / found[table])
        return found

    def scratch(self, name: str) -> str:
        """Return the name of a folder for what is needed until all is published, or is not."""
        folder = f".scratch-{name}-{self._mark}"
        self._written.add(folder)
        return folder

    def compact(self, table: str) -> None:
        """Put folders of a table together that have become many."""
        folders, sizes = self.pointer.tables[table], _sizes(self.root, self.pointer, table)
        first = overgrown(sizes)
        if table == _IN_PART and sum(_sizes(self.root, self.pointer, REPLACED)) > sum(sizes) / 10:
            first = 0
        if first == len(folders):
            return
        from pyspark.sql import functions as F

        together = self._counted(self.pointer, table, folders[first:]).drop("run")
        self._consists(table, folders[:first], self._write(table, together), together.schema)
        if table == _IN_PART:
            runs = [each.rpartition("run=")[2] for each in self.pointer.tables[table]]
            stale = self.rows(REPLACED).where(F.col("stale").isin(runs))
            self.replace(REPLACED, stale.drop("run"))

    def _write(self, table: str, rows: "DataFrame") -> str:
        if self._use is None:  # or an ingest would remove what is written
            self._use = _Lock(self.root / _USED, LOCK_SH)
        folder = self._folder(table)
        rows.write.parquet(address(self.root / folder))
        return folder

    def _folder(self, table: str) -> str:
        folder = f"{table}/run={self._mark}-{next(self._count)}"
        self._written.add(folder)
        return folder

    # Publishing -----------------------------------------------------------------

    @contextmanager
    def ingesting(self, say: Callable[[str], None]) -> Iterator[None]:
        """Go on from the present version, while nobody else ingests; remove what others have left.

        Raises:
            OSError: nothing can be written there.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        place = self.root / _INGEST
        try:
            alone = _Lock(place, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run that ingests into {self.root}")
            alone = _Lock(place, LOCK_EX)
        if self._use is not None:
            self._use.release()
        with suppress(BlockingIOError):  # somebody is at work: a later run clears up
            only = _Lock(self.root / _USED, LOCK_EX | LOCK_NB)
            _clear_up(self.root)
            only.release()
        self._use = _Lock(self.root / _USED, LOCK_SH)
        self.pointer = self._published = read_pointer(self.root)
        try:
            yield
        finally:
            alone.release()

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Publish what is written in it; if it fails, as on a full disk, nothing is left of it."""
        try:
            yield
            self._publish()
        finally:
            self.discard()

    def _publish(self) -> None:
        """Let others see what was written, beside what they have published meanwhile."""
        before, after = self._published, self.pointer
        mine = [name for name, each in after.tables.items() if before.tables.get(name) != each]
        if not mine:
            return
        for folder in sorted(self._written & after.folders):
            _settle(self.root / folder)
        with whole_file(self.root / _POINTER) as file:  # who comes second waits
            present = read_pointer(self.root)
            published = Pointer(
                present.version + 1,
                present.tables | {name: after.tables[name] for name in mine},
                present.schemas | {name: after.schemas[name] for name in mine},
            )
            json.dump({"v": FORMAT, **asdict(published)}, file, indent=1)
        self.pointer = self._published = replace(after, version=published.version)

    def discard(self) -> None:
        """Remove what was written, unless others can see it."""
        # Not by what this process remembers: an interrupt may come just when it is published.
        needed = read_pointer(self.root).folders | self._published.folders
        for folder in self._written - needed:
            shutil.rmtree(self.root / folder, ignore_errors=True)
        self._written &= needed
        self.pointer = self._published


def address(path: Path) -> str:
    """Return how Spark, on every machine, names a folder; it is no pattern."""
    # Without the scheme it would be a path of Hadoop's default file system.
    return f"file:{path}"


_OURS = re.compile(r"\w+/run=[0-9a-f]{6}-\d+|\.scratch-\w+-[0-9a-f]{6}")
"""What is written here; a folder that was named by mistake may have somebody's tables."""


def _clear_up(root: Path) -> None:
    """Remove what is not of the present version: nobody is at work."""
    needed = read_pointer(root).folders
    for path in (*root.glob("*/run=*"), *root.glob(".scratch-*")):
        name = str(path.relative_to(root))
        if name not in needed and _OURS.fullmatch(name):
            shutil.rmtree(path, ignore_errors=True)


def _settle(folder: Path) -> None:
    """See to it that a folder of a table outlasts a power loss."""
    # Spark does not. What is empty then is no error to it, but no rows.
    for path in (*folder.rglob("*"), folder, folder.parent):
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _sizes(root: Path, pointer: Pointer, table: str) -> list[int]:
    """How many bytes of Parquet each folder of a table has."""
    folders = (root / each for each in pointer.tables[table])
    return [sum(path.stat().st_size for path in each.rglob("*.parquet")) for each in folders]


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
