"""The pipeline's commands, in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from celery_fair.cli.pipeline import group
from celery_fair.pipeline.warehouse import read_pointer
from tests.apart import at_once
from tests.apart.standalone import CONF, SPARK_HOME, environment

__all__ = ["AT_ONCE", "SPARK_SUBMIT", "SUBMIT", "ask", "rows"]

SUBMIT = group.__file__
TIMEOUT = 900

AT_ONCE = (sys.executable, at_once.__file__)
SPARK_SUBMIT = str(SPARK_HOME / "bin" / "spark-submit")


def ask(program: Sequence[str], *words: object) -> list[Any]:
    """Run a command, or several at once; return the JSON documents that they print."""
    done = subprocess.run(
        [*program, *map(str, words)],
        env=environment(CONF),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return list(_documents(done.stdout))


def _documents(printed: str) -> Iterator[Any]:
    text = printed.lstrip()
    while text:
        document, end = json.JSONDecoder().raw_decode(text)
        yield document
        text = text[end:].lstrip()


def rows(warehouse: Path, table: str) -> list[dict[str, Any]]:
    """A published table, in an order that depends on its rows alone."""
    folders = read_pointer(warehouse).tables[table]
    paths = [str(path) for folder in folders for path in (warehouse / folder).rglob("*.parquet")]
    found = ds.dataset(paths).to_table().to_pylist()
    return sorted(found, key=lambda row: [str(value) for value in row.values()])
