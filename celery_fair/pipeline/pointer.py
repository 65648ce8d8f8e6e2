"""The small file that says which folders make up the present version of a warehouse.

It is replaced by a rename, so that a reader sees one whole version or the next one. A version that
was being written when the program died is not pointed at, as if it had never been there.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any

from celery_fair.pipeline.errors import OvertakenError, PipelineError
from celery_fair.pipeline.whole_file import whole_file

__all__ = ["Pointer", "alone", "read_pointer", "write_pointer"]

NAME = "current.json"
_LOCK = ".publishing"
_FORMAT = 2


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


def read_pointer(root: Path) -> Pointer:
    """Return the present version; an empty one where nothing has been published.

    Raises:
        PipelineError: the file is of another format.
    """
    path = root / NAME
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        if found["v"] != _FORMAT:
            raise PipelineError(
                f"{path} has format {found['v']}; this celery-fair knows {_FORMAT}: use the one"
                " that wrote it, or ingest the logs into a new folder"
            )
        return Pointer(int(found["version"]), found["tables"], found["schemas"])
    except FileNotFoundError:
        return Pointer()
    except (ValueError, KeyError, TypeError) as exc:
        raise PipelineError(
            f"{path} does not say which version is present ({exc!r}): is this a warehouse?"
        ) from exc


def write_pointer(root: Path, before: Pointer, after: Pointer) -> tuple[Pointer, Pointer]:
    """Publish the tables in which `after` is other than `before`; return what was there, and is.

    Others may have published meanwhile, but no such tables: what `ingest` writes and what is made
    of that have none in common.

    Raises:
        OvertakenError: another run has published some of these tables meanwhile.
    """
    with alone(root):
        present = read_pointer(root)
        mine, theirs = _changed(before, after), _changed(before, present)
        if mine & theirs:
            raise OvertakenError(
                f"another run has published version {present.version} of {root} while this one"
                f" worked on version {before.version}; nothing was changed: run it again"
            )
        merged = Pointer(present.version + 1, *_merged(present, after, mine))
        text = json.dumps({"v": _FORMAT, **asdict(merged)}, indent=1)
        with whole_file(root / NAME) as file:
            file.write(text)
    return present, merged


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


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """No other run publishes meanwhile; who is killed leaves it.

    Raises:
        OSError: nothing can be written there.
    """
    with (root / _LOCK).open("w") as file:
        flock(file, LOCK_EX)
        yield
