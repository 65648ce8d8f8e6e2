"""Which version of a warehouse is the present one: a pointer for each, the last of which counts.

A pointer is made only if there is none of its number: nobody waits for another, and one that is
killed blocks nobody.
"""

import json
import re
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from celery_fair.clock import elapsed
from celery_fair.pipeline.errors import OvertakenError, PipelineError
from celery_fair.pipeline.storage.store import Store

FORMAT = 1
"""Of the pointer, and of the tables that it names."""

_POINTER = re.compile(r"current-(\d+)\.json")

_SLOW = 60.0
"""Seconds for which the pointers of earlier versions are there at the least, and twice that."""


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

    def changed(self, before: "Pointer") -> list[str]:
        """Return the tables that consist of other folders than before."""
        return [name for name, each in self.tables.items() if before.tables.get(name) != each]


def read_pointer(root: Path) -> Pointer:
    """Return the present version; an empty one where nothing has been published.

    Raises:
        PipelineError: it is of another format.
    """
    pointers = _pointers(Store(root))
    if not pointers:
        return Pointer()
    try:
        found: dict[str, Any] = json.loads((root / pointers[-1]).read_text())
        if found["v"] != FORMAT:
            raise PipelineError(
                f"{root} is a warehouse of format {found['v']}, and this celery-fair reads"
                f" {FORMAT}: use the version that wrote it, or ingest the logs into a new folder"
            )
        return Pointer(int(found["version"]), found["tables"], found["schemas"])
    except (ValueError, KeyError, TypeError) as exc:
        raise PipelineError(
            f"the pointer in {root} does not say which version is present ({exc!r}): is this"
            " a warehouse?"
        ) from exc


def _name(version: int) -> str:
    return f"current-{version:06d}.json"


def _pointers(store: Store) -> list[str]:
    """Return the names of those that are there, the present one last."""
    named = map(_POINTER.fullmatch, store.names("current-*.json"))
    return [match[0] for match in sorted(filter(None, named), key=lambda match: int(match[1]))]


def write_pointer(root: Path, before: Pointer, after: Pointer) -> tuple[Pointer, Pointer]:
    """Publish the tables in which `after` is other than `before`; return what was there, and is.

    Others may have published meanwhile, but no such tables: what `ingest` writes and what is made
    of that have none in common.

    Raises:
        OvertakenError: another run has published some of these tables meanwhile.
    """
    store, mine = Store(root), after.changed(before)
    while True:
        looked = elapsed()
        present = read_pointer(root)
        if not set(mine).isdisjoint(present.changed(before)):
            raise OvertakenError(
                f"another run has published version {present.version} of {store.root} while"
                f" this one worked on version {before.version}; nothing was changed: run it again"
            )
        merged = Pointer(
            present.version + 1,
            present.tables | {name: after.tables[name] for name in mine},
            present.schemas | {name: after.schemas[name] for name in mine},
        )
        name = _name(merged.version)
        text = json.dumps({"v": FORMAT, **asdict(merged)}, indent=1)
        if store.put(name, text):
            pointers = _pointers(store)
            # One of the name may have been there, and been removed, since it was looked for.
            if pointers[-1] == name or elapsed() - looked < _SLOW:
                _forget(store, pointers)
                return present, merged
            store.remove(name)


def _forget(store: Store, pointers: list[str]) -> None:
    """Remove pointers that nobody can just be reading, or about to publish."""
    latest = store.changed(pointers[-1])
    for name in pointers[:-2]:
        with suppress(FileNotFoundError):  # another run has removed it
            if latest - store.changed(name) <= 2 * _SLOW:
                return
            store.remove(name)
