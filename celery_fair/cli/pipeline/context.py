"""What a pipeline command is given: a session, a warehouse, and where to say and show things."""

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from celery_fair.cli.screen import Bar, Line, PlainScreen, suitable_screen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from celery_fair.pipeline.progress import Read, Show
    from celery_fair.pipeline.session import Work
    from celery_fair.pipeline.storage.store import Store
    from celery_fair.pipeline.warehouse import Warehouse

__all__ = ["Context", "see_to_it_that_it_can_be_written"]


class Context:
    """What a command is given: a session when it asks for one, and where to say and show things.

    Arguments:
        master: the cluster's URL, or None.
        memory: the driver's.
        conf: further settings of Spark's.
        as_json: whether the result is printed as JSON.
        quiet: whether progress is not told.
    """

    def __init__(
        self, master: str | None, memory: str, conf: dict[str, str], as_json: bool, quiet: bool
    ) -> None:
        self._session: SparkSession | None = None
        self._one_writer = False
        self._catalog: str | None = None
        self._master = master
        self._memory = memory
        self._conf = conf
        self.as_json = as_json
        self.publishes = False
        self.of_warehouse = True  # and of no trace, which is somebody else's file
        self._quiet = quiet

    def say(self, what: str) -> None:
        """Tell on stderr what is being done."""
        if not self._quiet:
            click.echo(f"{what} …", err=True)

    def bar(self) -> "Show | None":
        """Return what shows on stderr how much has been read; None if that is no terminal."""
        plain = PlainScreen()
        screen = plain if self._quiet else suitable_screen(plain, err=True)
        if screen is plain:
            return None

        def show(read: "Read | None") -> None:
            if read is None:
                screen.close()
                return
            files = Line(f" {read.files:,} files, {read.rows:,} rows")
            screen.draw(files, Bar("bytes", read.bytes, read.size))

        return show

    def spark(self, work: "Work | None" = None) -> "SparkSession":
        """Return the session, which starts with the first call.

        Arguments:
            work: how much there is to do; None: much.
        """
        from celery_fair.pipeline.session import Work, open_session

        if self._session is None:
            self.say("starting Spark")
            self._session = open_session(
                self._master, self._memory, self._conf, Work.MUCH if work is None else work
            )
        return self._session

    def tables_in(self, schema: str) -> None:
        """Have tables of a catalog's schema made, too, of all that is published."""
        self._catalog = schema

    def one_writer(self) -> None:
        """Take it that no other command writes to the warehouse meanwhile."""
        self._one_writer = True

    def store(self, where: Path | str) -> "Store":
        """Return the store of an address; Spark is started for one that is elsewhere."""
        from celery_fair.pipeline.storage import store_at

        spark = self.spark() if isinstance(where, str) else None
        return store_at(where, spark, self._one_writer)

    def warehouse(self, where: Path | str, logs: Path | str | None = None) -> "Warehouse":
        """Return the warehouse in a folder: to ask, as it is now, whatever is published meanwhile.

        Arguments:
            logs: the folder that is to be read into it; None: there is none.
        """
        from celery_fair.pipeline.catalog import Catalog
        from celery_fair.pipeline.warehouse import Warehouse

        if logs is None and isinstance(where, Path):
            _see_to_it_that_there_is_one(where)
        if self.publishes and isinstance(where, Path):
            see_to_it_that_it_can_be_written(where)
        spark = self.spark(_work(where, logs))
        catalog = None if self._catalog is None else Catalog(spark, self._catalog)
        found = Warehouse(spark, self.store(where), catalog)
        return found.pin() if logs is None else found


def _see_to_it_that_there_is_one(where: Path) -> None:
    """Before Spark is started for nothing."""
    from celery_fair.pipeline.errors import PipelineError
    from celery_fair.pipeline.log_files import log_files

    if not where.exists():
        raise PipelineError(f"there is no folder {where.absolute()}: give the warehouse's")
    if any(where.glob("*/run=*")) or not next(log_files(where, "*.jsonl*"), None):
        return
    raise PipelineError(
        f"{where.absolute()} is a folder of logs, and no warehouse; fill one first: "
        f"python -m celery_fair pipeline ingest {where} WAREHOUSE"
    )


def see_to_it_that_it_can_be_written(folder: Path) -> None:
    """Or its parent, if it is not there yet.

    Raises:
        PipelineError: this user may not.
    """
    from celery_fair.pipeline.errors import PipelineError

    there = next((each for each in (folder, *folder.absolute().parents) if each.exists()), folder)
    if not os.access(there, os.W_OK | os.X_OK):
        raise PipelineError(
            f"this user may not write in {there.absolute()}, where what is found is kept: let it,"
            " or name another folder, such as a copy of this one"
        )


def _work(warehouse: Path | str, logs: Path | str | None) -> "Work":
    """How much there is to do; of what is not on this machine nobody knows.

    What was there before the last ingest is taken for read. It need not be, if that was of another
    folder: so a session for little work, which fails at much, is only for a log that is small.
    """
    from celery_fair.pipeline.session import LOG, WAREHOUSE, Work, work_below

    if isinstance(warehouse, str) or isinstance(logs, str):
        return Work.MUCH
    work = work_below(warehouse, WAREHOUSE)
    if logs is None:
        return work
    every = work_below(logs, LOG)
    if every is Work.LITTLE:
        return min(work, Work.SOME)  # of a large warehouse little is looked at
    read = None
    with suppress(FileNotFoundError):  # others may just publish
        runs = warehouse.glob("files/run=*")
        read = max((folder.stat().st_mtime for folder in runs), default=None)
    return max(Work.SOME, work_below(logs, LOG, since=read))
