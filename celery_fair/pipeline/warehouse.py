"""Tables as Parquet in versioned folders, a pointer to the present ones, and one writer at a time.

::

    <warehouse>/current-<version>.json                    the pointer: the folders of each table
    <warehouse>/<table>/run=<n>-<version>-<mark>/         what a run has written of a table
    <warehouse>/.held-<mark>                              what somebody reads or writes just now
    <warehouse>/.scratch-…                                what a run needs for a while

A table is one folder or several; what has been published never changes. A run writes its own
folders, then the pointer. A reader sees one whole version or the next one. A version that was being
written when the program died is not pointed at, as if it had never been there. Of two that publish
the same version one does, and the other is told so.

Some tables are replaced as a whole; others grow by a folder per run, and folders that have become
many are put together (`overgrown`). Where a run has made rows anew of which a folder before has
older ones, the table `replaced` names these by folder and id, and who reads the table leaves them
out: so much less is written than if that folder were written again.
"""

import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from celery_fair.pipeline.errors import OvertakenError, PipelineError
from celery_fair.pipeline.log_files import unglobbed
from celery_fair.pipeline.storage.pointer import Pointer, read_pointer, write_pointer
from celery_fair.pipeline.storage.store import SCRATCH, Held, Hold, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

REPLACED = "replaced"
"""The table of the rows of `attempts` that no longer count: of an `id`, in the run `stale`."""

_IN_PART = "attempts"
"""The table of which rows are replaced one by one."""

_NAMED = re.compile(r"(\d{6,})-([0-9a-f]{6})$")
"""How the name of what a run has written ends: its version, and its own mark."""

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
        self.store = Store(root)
        self.root = self.store.root
        self._pinned: Pointer | None = None
        self._holds: list[Hold] = []

    def pin(self) -> "Warehouse":
        """Stay with the present version, and what is published by this object; return that.

        What others publish meanwhile is not seen, and removes nothing of it.
        """
        try:
            self._pinned, hold = self._held(secrets.token_hex(3))
        except OSError:  # the folder is another user's, or the disk is full
            self._pinned, hold = read_pointer(self.root), Hold()
        self._holds.append(hold)
        return self

    def _held(self, mark: str, make: bool = False) -> tuple[Pointer, Hold]:
        """Return the present version, held.

        Arguments:
            make: whether it is held even if there is none yet.

        Raises:
            OSError: nothing can be written there.
        """
        present = read_pointer(self.root)
        while make or present.version:  # else it may be no warehouse at all
            hold = self.store.hold(mark, (self._pinned or present).folders)
            # Who has published since may not have seen that these folders are held.
            looked, present = present, read_pointer(self.root)
            if present.version == looked.version:
                return present, hold
            hold.release()
        return present, Hold()

    def table(self, name: str) -> "DataFrame":
        """Return a table of the present version.

        Raises:
            PipelineError: there is none of the name.
        """
        return self.of(self._pinned or read_pointer(self.root), name)

    def of(self, pointer: Pointer, name: str) -> "DataFrame":
        """Return a table of some version.

        Raises:
            PipelineError: there is none of the name.
        """
        if name not in pointer.tables:
            raise PipelineError(
                f"{self.root} has no table {name!r}; fill it first: "
                f"python -m celery_fair pipeline ingest LOGS {self.root}"
            )
        return self.rows(pointer, name).drop("run")

    def rows(self, pointer: Pointer, name: str) -> "DataFrame":
        """Return a table that there is, with the `run` that wrote each row."""
        rows = self.read(pointer.tables[name], pointer.schemas[name])
        if name == _IN_PART and REPLACED in pointer.tables:
            # Which column is the run that is meant, and which the one that has said so.
            stale = self.read(pointer.tables[REPLACED], pointer.schemas[REPLACED])
            stale = stale.select("id", "stale").withColumnRenamed("stale", "run")
            rows = rows.join(stale, ["run", "id"], "left_anti")
        return rows

    def read(self, folders: Sequence[str], schema: "StructType | str") -> "DataFrame":
        """Return what certain folders, all of one table, hold, and the `run` that wrote it."""
        paths = [unglobbed(self.store.address(folder)) for folder in folders]
        base = self.store.address(folders[0].partition("/")[0])
        reader = self.spark.read.option("basePath", base).schema(f"{_ddl(schema)}, run string")
        return reader.parquet(*paths)

    def begin(self, make: bool = False) -> "Run":
        """Begin the next version.

        Arguments:
            make: whether it may be the first.

        Raises:
            OSError: nothing can be written there. Who holds nothing writes nothing: others would
                take it for what a run left behind that was killed.
        """
        mark = secrets.token_hex(3)
        present, hold = self._held(mark, make)
        return Run(self, self._pinned or present, f"{present.version + 1:06d}-{mark}", hold)

    @contextmanager
    def publishing(self) -> Iterator["Run"]:
        """Publish what is written in it; if it fails, the disk being full, nothing is left of it.

        Who reads by the run's `table` reads one version, however many are published meanwhile: of
        two, starts that are only in the second would be missing while its logs are complete.
        If another run has published the same tables meanwhile, its are those that others see; what
        was written here can be read all the same.
        """
        run = self.begin()
        try:
            yield run
            with suppress(OvertakenError):
                run.publish()
        except BaseException:  # an interrupt too; re-raised
            run.discard()
            raise
        if self._pinned is None:
            run.release()
        else:
            self._pinned = run.pointer
            self._holds.append(run.hold)


class Run:
    """The next version while it is being written. Nothing is seen of it before `publish`.

    Arguments:
        before: the version that it reads.
        number: with which the names of all that it writes end.
        hold: what keeps others from removing what it reads and writes.
    """

    def __init__(self, warehouse: Warehouse, before: Pointer, number: str, hold: Hold) -> None:
        self.warehouse = warehouse
        self.hold = hold
        self.release = hold.release
        """Let others remove what they do not need."""
        self._before = before
        self.pointer = Pointer(before.version + 1, before.tables, before.schemas)
        """What it has read and written."""
        self._number = number
        self._folders = count()

    # Reading --------------------------------------------------------------------

    def has(self, table: str) -> bool:
        """Whether there is such a table, in this version or the one before."""
        return table in self.pointer.tables

    def table(self, name: str) -> "DataFrame":
        """Return a table of the version that was there when this run began, or as it has it now.

        Raises:
            PipelineError: there is none of the name.
        """
        return self.warehouse.of(self.pointer, name)

    def known(self, table: str, schema: "StructType | str") -> "DataFrame":
        """Return the table as this run has it so far; an empty one if there is none."""
        if not self.has(table):
            return self.warehouse.spark.createDataFrame([], schema)
        return self.table(table)

    def rows(self, table: str, before: bool = False) -> "DataFrame":
        """Return a table that there is, with the `run` that wrote each row.

        Arguments:
            before: without what this run has written.
        """
        return self.warehouse.rows(self._before if before else self.pointer, table)

    # Writing --------------------------------------------------------------------

    def replace(self, table: str, rows: "DataFrame") -> "DataFrame":
        """Write the whole table; return it as it was written."""
        return self._consists(table, [], self._write(table, rows), rows.schema)

    def extend(self, table: str, rows: "DataFrame") -> "DataFrame":
        """Write further rows of a table; return those."""
        return self.adopt(table, self._write(table, rows), rows.schema)

    def adopt(self, table: str, folder: str, schema: "StructType | str") -> "DataFrame":
        """Let a folder that this run has written be part of a table; return what is in it."""
        return self._consists(table, self.pointer.tables.get(table, []), folder, schema)

    def _consists(
        self, table: str, others: list[str], folder: str, schema: "StructType | str"
    ) -> "DataFrame":
        self.pointer = self.pointer.with_table(table, [*others, folder], _ddl(schema))
        return self.warehouse.read([folder], schema).drop("run")

    def split(self, rows: "DataFrame", by: str, tables: Sequence[str]) -> dict[str, str]:
        """Write rows once, to the table that the column `by` names; return each table's folder."""
        store, scratch = self.warehouse.store, self.scratch("staged")
        together = f"{scratch}/run=0"
        rows.write.partitionBy(by).mode("overwrite").parquet(store.address(together))
        found = {}
        for table in tables:
            written = f"{together}/{by}={table}"
            if (store.root / written).is_dir():
                found[table] = self._folder(table)
                store.move(written, found[table])
        store.remove(scratch)
        return found

    def scratch(self, name: str) -> str:
        """Return the name of a folder for what this run needs for a while."""
        return f"{SCRATCH}{name}-{self._number}"

    def remove(self, folder: str) -> None:
        """Remove a folder that only this run has seen."""
        self.warehouse.store.remove(folder)

    def compact(self, table: str) -> None:
        """Put folders of a table together that have become many."""
        folders, sizes = self.pointer.tables.get(table, []), self._sizes(table)
        first = overgrown(sizes)
        if table == _IN_PART and sum(self._sizes(REPLACED)) > sum(sizes) / 10:
            first = 0
        if first == len(folders):
            return
        from pyspark.sql import functions as F

        schema = self.pointer.schemas[table]
        rows = self.warehouse.of(self.pointer.with_table(table, folders[first:], schema), table)
        self._consists(table, folders[:first], self._write(table, rows), schema)
        for written in folders[first:]:
            if written.endswith(self._number):
                self.remove(written)
        if table == _IN_PART:
            runs = [each.rpartition("run=")[2] for each in self.pointer.tables[table]]
            stale = self.rows(REPLACED).where(F.col("stale").isin(runs))
            self.replace(REPLACED, stale.drop("run"))

    def _sizes(self, table: str) -> list[int]:
        return [self.warehouse.store.size(each) for each in self.pointer.tables.get(table, [])]

    def _write(self, table: str, rows: "DataFrame") -> str:
        folder = self._folder(table)
        rows.write.parquet(self.warehouse.store.address(folder))
        return folder

    def _folder(self, table: str) -> str:
        return f"{table}/run={next(self._folders)}-{self._number}"

    # Publishing -----------------------------------------------------------------

    def publish(self) -> None:
        """Let others see what this run has written, and remove what nobody needs any more.

        That is all but this version, the one before, and what somebody reads or writes just now:
        what a run has left that was killed goes, too.

        Raises:
            OvertakenError: another run has published some of the same tables meanwhile.
        """
        store = self.warehouse.store
        store.settle(sorted(self.pointer.folders - self._before.folders))
        before, published = write_pointer(store.root, self._before, self.pointer)
        self.pointer = Pointer(published.version, self.pointer.tables, self.pointer.schemas)
        found = store.held()
        # Who begins to read a later version just now may not be among these: its writer clears up.
        if found is None or read_pointer(store.root).version != published.version:
            return
        needed = before.folders | published.folders | found.folders
        for folder in _written(store):
            if folder not in needed and self._is_past(folder, found):
                store.remove(folder)

    def _is_past(self, folder: str, found: Held) -> bool:
        """Whether it was written for an earlier version, or this one, by a run that has ended."""
        named = _NAMED.search(folder)
        return (
            named is not None
            and int(named[1]) <= self.pointer.version
            and named[2] not in found.marks
        )

    def discard(self) -> None:
        """Remove what this run has written, unless others can see it, or may."""
        # Not by what this process remembers: an interrupt may come just when it is published.
        store = self.warehouse.store
        seen = read_pointer(store.root).folders
        if not any(each.endswith(self._number) for each in seen):
            for folder in _written(store):
                if folder.endswith(self._number):
                    store.remove(folder)
        self.release()


def _written(store: Store) -> list[str]:
    """Return the folders of runs, and those that are for a while."""
    return [*store.names("*/run=*"), *store.names(f"{SCRATCH}*")]


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
