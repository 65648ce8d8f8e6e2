"""The small file that says which folders make up the present version of a warehouse.

A reader sees one whole version or the next one (`celery_fair.pipeline.storage` says how). A version
that was being written when the program died is not pointed at, as if it had never been there.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from celery_fair.pipeline.errors import OvertakenError, PipelineError
from celery_fair.pipeline.storage.local import LocalStore
from celery_fair.pipeline.storage.store import Store

__all__ = ["FORMAT", "Pointer", "read_pointer", "write_pointer"]

FORMAT = 1
"""Of the pointer, and of the tables that it names."""


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

    def with_table(self, table: str, folders: list[str], schema: str) -> "Pointer":
        """Return a pointer in which `table` consists of other folders; the number stays."""
        tables, schemas = {**self.tables, table: folders}, {**self.schemas, table: schema}
        return Pointer(self.version, tables, schemas)

    def without(self, table: str) -> "Pointer":
        """Return a pointer without `table`."""
        tables, schemas = dict(self.tables), dict(self.schemas)
        tables.pop(table, None)
        schemas.pop(table, None)
        return Pointer(self.version, tables, schemas)


def read_pointer(where: Store | Path) -> Pointer:
    """Return the present version; an empty one where nothing has been published.

    Raises:
        PipelineError: the file is of another format.
    """
    store = _at(where)
    text = store.present()
    if text is None:
        return Pointer()
    try:
        found: dict[str, Any] = json.loads(text)
        if found["v"] != FORMAT:
            raise PipelineError(
                f"{store.root} is a warehouse of format {found['v']}, and this celery-fair reads"
                f" {FORMAT}: use the version that wrote it, or ingest the logs into a new folder"
            )
        return Pointer(int(found["version"]), found["tables"], found["schemas"])
    except (ValueError, KeyError, TypeError) as exc:
        raise PipelineError(
            f"the pointer in {store.root} does not say which version is present ({exc!r}): is this"
            " a warehouse?"
        ) from exc


def write_pointer(
    where: Store | Path,
    before: Pointer,
    after: Pointer,
    check: Callable[[], None] = lambda: None,
) -> tuple[Pointer, Pointer]:
    """Publish the tables in which `after` is other than `before`; return what was there, and is.

    Others may have published meanwhile, but no such tables: what `ingest` writes and what is made
    of that have none in common.

    Arguments:
        check: raises an error if the folders of `after` are no longer held.

    Raises:
        OvertakenError: another run has published some of these tables meanwhile.
    """
    store = _at(where)
    with store.alone():
        while True:
            present = read_pointer(store)
            mine, theirs = _changed(before, after), _changed(before, present)
            if mine & theirs:
                raise OvertakenError(
                    f"another run has published version {present.version} of {store.root} while"
                    f" this one worked on version {before.version}; nothing was changed: run it"
                    " again"
                )
            check()
            merged = Pointer(present.version + 1, *_merged(present, after, mine))
            text = json.dumps({"v": FORMAT, **asdict(merged)}, indent=1)
            if store.point(merged.version, text):
                return present, merged


def _at(where: Store | Path) -> Store:
    return LocalStore(where) if isinstance(where, Path) else where


def _changed(before: Pointer, after: Pointer) -> set[str]:
    names = {*before.tables, *after.tables}
    return {name for name in names if before.tables.get(name) != after.tables.get(name)}


def _merged(
    present: Pointer, after: Pointer, mine: set[str]
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return tables and schemas: present ones, and those that are mine."""
    names = {**present.tables, **after.tables}
    chosen = {name: after if name in mine else present for name in names}
    there = {name: of for name, of in chosen.items() if name in of.tables}
    return (
        {name: of.tables[name] for name, of in there.items()},
        {name: of.schemas[name] for name, of in there.items() if name in of.schemas},
    )
