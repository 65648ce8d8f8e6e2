"""The tables of a warehouse, as PyArrow reads them: only the columns that are asked for."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.warehouse import Pointer

__all__ = ["check", "named", "of_queues", "table_of"]


def check(pointer: Pointer, table: str, there: Iterable[str], wanted: Sequence[str]) -> None:
    missing = sorted(set(wanted) - set(there))
    if missing:
        raise PipelineError(
            f"the table {table!r} of version {pointer.version} has no {', '.join(missing)}: it was"
            " written by another version of celery-fair; ingest the logs into a new folder"
        )


def table_of(root: Path, pointer: Pointer, name: str, but: str = "") -> Any:
    """Return a table; only its folders of the run `but`, if that is named."""
    import pyarrow.dataset as ds

    files = []
    for folder in pointer.tables.get(name, ()):
        if but and not folder.endswith(f"run={but}"):
            continue
        if not (root / folder).is_dir():
            raise FileNotFoundError(2, "No such folder", str(root / folder))
        if not os.access(root / folder, os.R_OK | os.X_OK):  # else it would seem to be empty
            raise PermissionError(13, "Permission denied", str(root / folder))
        files += [str(path) for path in sorted((root / folder).rglob("*.parquet"))]
    try:
        return ds.dataset(files, format="parquet")
    except (OSError, ValueError) as exc:
        if isinstance(exc, FileNotFoundError):
            raise
        raise PipelineError(
            f"the table {name!r} of version {pointer.version} in {root} is broken: {exc}"
        ) from exc


def named(rows: Any) -> Any:
    """Return rows whose queue is "" where there is none."""
    import pyarrow.compute as pc

    queues = pc.fill_null(rows["queue"], "")
    return rows.set_column(rows.schema.get_field_index("queue"), "queue", queues)


def of_queues(rows: Any, queues: Sequence[str]) -> Any:
    """Return the rows of some queues."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return rows.filter(pc.is_in(rows["queue"], pa.array(queues, pa.string())))
