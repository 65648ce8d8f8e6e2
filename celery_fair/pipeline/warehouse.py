"""Tables as Parquet in versioned folders: ``<warehouse>/<table>/run=<number>-<random>/``.

A table is one folder or several; what has been published never changes. A run writes its own
folders, then the pointer. Some tables are replaced as a whole; others grow by a folder per run, and
folders that have become many are put together (`overgrown`). Where a run has made rows anew of
which a folder before has older ones, the table `replaced` names these by folder and id, and who
reads the table leaves them out: so much less is written than if that folder were written again.
"""

import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from celery_fair.pipeline.catalog import Catalog
from celery_fair.pipeline.errors import OvertakenError, PipelineError
from celery_fair.pipeline.log_files import unglobbed
from celery_fair.pipeline.pointer import Pointer, read_pointer, write_pointer
from celery_fair.pipeline.storage.chosen import store_at
from celery_fair.pipeline.storage.local import SCRATCH
from celery_fair.pipeline.storage.store import Held, Hold, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["REPLACED", "Run", "Warehouse", "overgrown"]

REPLACED = "replaced"
"""The table of the rows of `attempts` that no longer count: of an `id`, in the run `stale`."""

_IN_PART = "attempts"
"""The table of which rows are replaced one by one."""

_NAMED = re.compile(r"(\d{6,})-([0-9a-f]{6})$")
"""How the name of what a run has written ends: its version, and its own mark."""

FEW = 8
"""Folders of a table that are not worth putting together."""


class Warehouse:
    """A folder that driver and executors see under one address.

    Arguments:
        spark: reads and writes.
        where: the folder: a path, a URI, or its store.
        catalog: where tables are made, too, that are published by `publishing`.
    """

    def __init__(
        self,
        spark: "SparkSession",
        where: Path | str | Store,
        catalog: Catalog | None = None,
    ) -> None:
        self.spark = spark
        self.store = store_at(where, spark)
        self.root = self.store.root
        self._catalog = catalog
        self._pinned: Pointer | None = None
        self._holds: list[Hold] = []

    def pin(self) -> "Warehouse":
        """Stay with the present version, and what is published by this object; return that.

        What others publish meanwhile is not seen, and removes nothing of it.
        """
        mark = secrets.token_hex(3)
        try:
            self._pinned, hold = self._held(mark)
        except OSError:  # the folder is another user's, or the disk is full
            self._pinned, hold = read_pointer(self.store), None
        self._keep(hold)
        return self

    def _keep(self, hold: Hold | None) -> None:
        if hold is not None:
            self._holds.append(hold)

    def _held(self, mark: str, make: bool = False) -> tuple[Pointer, Hold | None]:
        """Return the present version, held.

        Arguments:
            make: whether it is held even if there is none yet.

        Raises:
            OSError: nothing can be written there.
        """
        present = read_pointer(self.store)
        if not (make or present.version):  # it may be no warehouse at all
            return present, None
        with self.store.alone():
            while True:
                present = read_pointer(self.store)
                hold = self.store.hold(mark, self._seen(present).folders)
                # Who has published since may not have seen that these folders are held.
                if read_pointer(self.store).version == present.version:
                    return present, hold
                hold.release()

    def _seen(self, present: Pointer) -> Pointer:
        return present if self._pinned is None else self._pinned

    def has(self, table: str) -> bool:
        """Whether the table has been published."""
        return table in self._seen(read_pointer(self.store)).tables

    def table(self, name: str) -> "DataFrame":
        """Return a table of the present version.

        Raises:
            PipelineError: there is none of the name.
        """
        return self.of(self._seen(read_pointer(self.store)), name)

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
        paths = [unglobbed(self.store.address(folder)) for folder in folders]
        base = self.store.address(folders[0].partition("/")[0])
        reader = self.spark.read.option("basePath", base).schema(f"{ddl}, run string")
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
        if make or read_pointer(self.store).version:  # else it may be no warehouse at all
            self.store.check()
        if make:
            self.store.make()
        present, hold = self._held(mark, make)
        return Run(self, self._seen(present), f"{present.version + 1:06d}-{mark}", hold)

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
                if self._catalog is not None:
                    for name in run.made:
                        self._catalog.write(name, run.table(name))
        except BaseException:  # an interrupt too; re-raised
            run.discard()
            raise
        if self._pinned is None:
            run.release()
        else:
            self._pinned = run.pointer
            self._keep(run.hold)


class Run:
    """The next version while it is being written. Nothing is seen of it before `publish`.

    Arguments:
        before: the version that it reads.
        number: with which the names of all that it writes end.
        hold: what keeps others from removing what it reads and writes; None where there is no
            version yet.
    """

    def __init__(
        self, warehouse: Warehouse, before: Pointer, number: str, hold: Hold | None = None
    ) -> None:
        self.warehouse = warehouse
        self.hold = hold
        self._before = before
        self._after = Pointer(before.version + 1, dict(before.tables), dict(before.schemas))
        self._number = number

    @property
    def pointer(self) -> Pointer:
        """What it has read and written."""
        return self._after

    @property
    def made(self) -> list[str]:
        """The tables that it has written."""
        before, after = self._before.tables, self._after.tables
        return [name for name, folders in after.items() if before.get(name) != folders]

    def release(self) -> None:
        """Let others remove what they do not need."""
        if self.hold is not None:
            self.hold.release()

    @property
    def version(self) -> int:
        return self._after.version

    def has(self, table: str) -> bool:
        """Whether there is such a table, in this version or the one before."""
        return table in self._after.tables

    def table(self, name: str) -> "DataFrame":
        """Return a table of the version that was there when this run began, or as it has it now.

        Raises:
            PipelineError: there is none of the name.
        """
        return self.warehouse.of(self._after, name)

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
        store, scratch = self.warehouse.store, self.scratch("staged")
        together = f"{scratch}/run=0"
        try:
            rows.write.partitionBy(by).parquet(store.address(together))
        except Exception:  # it may be tried again; re-raised
            store.remove(scratch)
            raise
        found = {}
        for table in tables:
            written = f"{together}/{by}={table}"
            if store.is_folder(written):
                found[table] = self._folder(table)
                store.move(written, found[table])
        store.remove(scratch)
        return found

    def scratch(self, name: str) -> str:
        """Make a folder for what this run needs for a while; return its name."""
        folder = f"{SCRATCH}{name}-{self._number}"
        self.warehouse.store.make(folder)
        return folder

    def remove(self, folder: str) -> None:
        """Remove a folder that only this run has seen."""
        self.warehouse.store.remove(folder)

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
        return [self.warehouse.store.size(folder) for folder in folders]

    def runs(self, table: str) -> list[str]:
        """Return the runs whose folders make up a table."""
        return [folder.rpartition("run=")[2] for folder in self._after.tables.get(table, [])]

    def publish(self) -> None:
        """Let others see what this run has written, and remove what nobody needs any more.

        That is all but this version, the one before, and what somebody reads or writes just now:
        what a run has left that was killed goes, too.

        Raises:
            OvertakenError: another run has published some of the same tables meanwhile.
        """
        store = self.warehouse.store
        store.make()
        store.settle(sorted(self._after.folders - self._before.folders))
        check = (lambda: None) if self.hold is None else self.hold.check
        before, published = write_pointer(store, self._before, self._after, check)
        self._after = Pointer(published.version, self._after.tables, self._after.schemas)
        with store.alone():
            found, present = store.held(), read_pointer(store)
        needed = before.folders | published.folders | present.folders | found.folders
        for folder in store.written():
            if folder not in needed and self._is_past(folder, found):
                store.remove(folder)

    def discard(self) -> None:
        """Remove what this run has written, unless others can see it."""
        store = self.warehouse.store
        try:
            if not self._may_be_seen():
                for folder in store.written():
                    if folder.endswith(self._number):
                        store.remove(folder)
        finally:  # a store that is down is told
            self.release()

    def _may_be_seen(self) -> bool:
        """Whether it is published, or may be: then the next run removes what is not needed."""
        # Not by what this process remembers: an interrupt may come just when it is published.
        store = self.warehouse.store
        folders = read_pointer(store).folders
        return store.in_doubt or any(folder.endswith(self._number) for folder in folders)

    def _write(self, table: str, rows: "DataFrame") -> str:
        folder = self._folder(table)
        rows.write.parquet(self.warehouse.store.address(folder))
        return folder

    def _folder(self, table: str) -> str:
        """Return the name of a folder that is not there yet."""
        names = (f"{table}/run={again}{self._number}" for again in ("", "a-", "b-", "c-"))
        return next(name for name in names if not self.warehouse.store.is_folder(name))

    def _is_past(self, folder: str, found: Held) -> bool:
        """Whether it was written for an earlier version, or this one, by a run that has ended."""
        named = _NAMED.search(folder)
        return (
            named is not None
            and int(named[1]) <= self._after.version
            and named[2] not in found.marks
        )


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
