"""The formulas once more, in SQL and written differently, for DuckDB to compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

__all__ = ["ask"]


def ask(question: str, parameters: dict[str, Any] | None = None, **tables: pd.DataFrame) -> Any:
    """Return the rows that the file of that name asks for, as dictionaries."""
    sql = Path(__file__).with_name(f"{question}.sql").read_text()
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        found = connection.execute(sql, parameters or {})
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
