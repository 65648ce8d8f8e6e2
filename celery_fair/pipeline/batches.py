"""Rows as Python sees them, where Spark hands them over in batches of pandas."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["batch_of", "rows_of"]


def rows_of(batch: "pd.DataFrame", names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the named columns, row by row."""
    return zip(*(batch[name].tolist() for name in names), strict=True)


def batch_of(rows: Sequence[tuple[Any, ...]], schema: str) -> "pd.DataFrame":
    """Return rows of a schema, such as "name string, at double"."""
    import pandas as pd

    return pd.DataFrame(rows, columns=[column.split()[0] for column in schema.split(", ")])
