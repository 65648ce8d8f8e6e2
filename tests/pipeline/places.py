"""Where a warehouse may be besides on this machine, for tests: real file systems of Hadoop's.

``viewfs`` is one whose files are on this machine, but that nobody sees by a path: its promises are
those of a store that has none. HDFS is a server.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celery_fair.pipeline.storage.hadoop import HadoopStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Elsewhere", "viewed"]

_numbers = count(1)


class Elsewhere:
    """A folder of such a file system."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self.spark = spark
        self.uri = uri

    def store(self, name: str, **options: Any) -> HadoopStore:
        return HadoopStore(self.spark, f"{self.uri}/{name}", one_writer=True, **options)

    def put(self, folder: Path, name: str) -> str:
        """Copy a folder there; return its URI."""
        store = self.store(name)
        for path in folder.rglob("*"):
            if path.is_file():
                store.put(path.relative_to(folder).as_posix(), path.read_bytes())
        return str(store.root)

    def age(self, name: str, seconds: float) -> None:
        """Let a file have been written so long ago, by the store's clock."""
        store = self.store("")
        store.write("now", b"")
        then = int((store.changed("now") - seconds) * 1000)
        store._files.setTimes(store.path(name), then, -1)


def viewed(spark: SparkSession, folder: Path) -> Iterator[Elsewhere]:
    """Bind a folder of this machine to a file system of another scheme."""
    name = f"cluster{next(_numbers)}"
    setting = f"fs.viewfs.mounttable.{name}.link./shared"
    spark.conf.set(setting, f"file://{folder}")
    yield Elsewhere(spark, f"viewfs://{name}/shared")
    spark.conf.unset(setting)
