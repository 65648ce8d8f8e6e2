"""The Spark session: a local one, or that of the cluster which spark-submit has chosen."""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.java import JAVA_NEEDED, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["open_session"]

_LOCAL = {
    # A laptop's name may resolve to an address that a VPN has taken away.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_ALWAYS = {
    # Times are seconds since 1970; dates are theirs in UTC, wherever the driver stands.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A small file costs about as much as so many bytes more, and a list of folders few jobs.
    "spark.sql.files.openCostInBytes": "65536",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
    # Lines that are records and those that are not are written at once, and need not be sorted.
    "spark.sql.maxConcurrentOutputFileWriters": "16",
    "spark.sql.parquet.compression.codec": "zstd",
}


def open_session(
    master: str | None = None, memory: str = "1g", options: dict[str, str] | None = None
) -> "SparkSession":
    """Return the session; under spark-submit, its own options take precedence over these.

    Arguments:
        master: URL of the cluster; None: every core of this machine.
        memory: of the driver, which under a local master is all there is.
        options: further Spark settings.

    Raises:
        PipelineError: PySpark is not installed, no Java is found, or the session does not start.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    settings = {**_ALWAYS, **(options or {})}
    if not submitted:
        _prepare_java()
        settings = {"spark.driver.memory": memory, **settings}
        master = master or "local[*]"
        if master.startswith("local"):
            settings = {**_LOCAL, **settings}
    return _started(master, settings)


def _prepare_java() -> None:
    found = find_java(os.environ)
    if found is None:
        raise PipelineError(f"no usable Java was found: {JAVA_NEEDED}")
    os.environ["JAVA_HOME"] = found.home
    # Else the workers of another Python than the driver's would be started.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _started(master: str | None, settings: dict[str, str]) -> "SparkSession":
    try:
        from pyspark.sql import SparkSession
    except ImportError as exc:
        raise PipelineError(
            f"PySpark cannot be imported ({exc}): pip install celery-fair[spark]"
        ) from exc
    builder = SparkSession.builder.appName("celery-fair").config(map=dict(settings))
    if master is not None:
        builder = builder.master(master)
    try:
        session = builder.getOrCreate()
    except Exception as exc:  # Python's, Py4J's or Java's: there is no session
        raise PipelineError(
            f"no Spark session with master {master!r}: {exc}; "
            "python -m celery_fair pipeline doctor looks for the cause"
        ) from exc
    session.sparkContext.setLogLevel("ERROR")
    if not str(session.sparkContext.master).startswith("local"):
        _ship(session)
    return session


def _ship(session: "SparkSession") -> None:
    """Give executors this package, whose scheduler replays run on; they need no installation."""
    root, context = Path(__file__).parents[1], session.sparkContext
    if any(path.endswith(f"/{root.name}.zip") for path in context.listFiles):
        return
    # The driver hands out this very file, to each executor when that begins its first task.
    folder = tempfile.mkdtemp(prefix=f"{root.name}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    context.addPyFile(shutil.make_archive(f"{folder}/{root.name}", "zip", root.parent, root.name))
