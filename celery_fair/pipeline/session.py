"""The Spark session: a local one, or that of the cluster which spark-submit has chosen."""

import atexit
import logging
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from enum import IntEnum
from functools import cache
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, TextIO

from celery_fair.pipeline.errors import PipelineError, root_cause
from celery_fair.pipeline.java import archive_options, find_java
from celery_fair.pipeline.log_files import files_below

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL = {
    # A laptop's name may resolve to an address that a VPN has taken away.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class Work(IntEnum):
    """How much there is to do on this machine: half a minute goes into starting Spark and what it
    compiles, and that pays only if it is used for longer."""

    LITTLE = 0
    SOME = 1
    MUCH = 2


LOG = (64 << 20, 128 << 20)
"""Bytes of a log that are little work, and some."""

WAREHOUSE = (LOG[0] // 10, LOG[0])
"""The same of a warehouse, where an event takes a tenth."""

_COMPRESSED, _SQUEEZED = (".gz", ".zst"), 10
"""Files of a log in which an event takes a tenth, too, and so counts as often."""

_OPTIONS = "spark.driver.defaultJavaOptions"
"""Java's options: those that come before the user's, which may be in ``spark-defaults.conf``."""

_SERIAL = "-XX:+UseSerialGC"
_PARALLEL = "-XX:+UseParallelGC"
"""Who waits for an end and not for an answer wants the collector that computes least. Java does not
start if the user names another one: then it is started without all that is said here."""

_COMPILED_ONCE = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""What is compiled for a minute's work is not worth compiling well. All that is compiled is more
than Java keeps by default if it compiles so."""

_LONG_TOO = "-XX:-DontCompileHugeMethods"
"""Java interprets methods of more than 8,000 bytes by default, and such are what Spark writes for
tables with many columns: a third of the audit's time."""

_FOR = {
    Work.LITTLE: {
        _OPTIONS: f"{_COMPILED_ONCE} {_SERIAL}",
        # Nor does it pay to have Spark write Java, which is compiled first, or to plan anew.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        # Filters that are inferred save reading; to look for them is a third of the planning.
        "spark.sql.constraintPropagation.enabled": "false",
    },
    Work.SOME: {
        _OPTIONS: f"{_COMPILED_ONCE} {_LONG_TOO} {_PARALLEL}",
        "spark.sql.shuffle.partitions": "16",  # of some megabytes
    },
    Work.MUCH: {_OPTIONS: f"{_LONG_TOO} {_PARALLEL}"},
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
    # Which folders are whole the warehouse says; for a file more Java starts two processes more.
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # Else each column that is named remembers the line in which it was.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}


def open_session(
    master: str | None = None,
    memory: str = "1g",
    options: dict[str, str] | None = None,
    work: Work = Work.MUCH,
) -> "SparkSession":
    """Return the session; under spark-submit, its own options take precedence over these.

    Arguments:
        master: URL of the cluster; None: every core of this machine.
        memory: of the driver, which under a local master is all there is.
        options: further Spark settings.
        work: how much there is to do, see `work_below`.

    Raises:
        PipelineError: PySpark is not installed, no Java is found, or the session does not start.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    settings = {**_ALWAYS, **(options or {})}
    if not submitted:
        os.environ["JAVA_HOME"] = find_java(os.environ).home
        # Else the workers of another Python than the driver's would be started.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings = {"spark.driver.memory": memory, **settings}
        master = master or "local[*]"
        if master.startswith("local"):
            settings = {**_LOCAL, **settings}
            with suppress(PipelineError):  # this Java may not take some of what is said to it
                return _started(master, _for(work, settings), silenced=True)
    return _started(master, settings, silenced=not submitted)


def _for(work: Work, settings: dict[str, str]) -> dict[str, str]:
    """Return settings, and those for so much work, of which the user's take precedence."""
    ours = _FOR[work]
    options = (ours[_OPTIONS], archive_options(makes=work is not Work.MUCH), settings.get(_OPTIONS))
    return {**ours, **settings, _OPTIONS: " ".join(filter(None, options))}


def work_below(folder: Path, bounds: tuple[int, int], since: float | None = None) -> Work:
    """Return how much work there is with the files below a folder that this machine sees.

    Arguments:
        folder: it, and those that links below it lead to; what cannot be read has none.
        bounds: bytes, `LOG` or `WAREHOUSE`.
        since: only with files that have come or changed since, in seconds since 1970; None: all.
    """
    size = 0
    for path in files_below(folder):
        with suppress(OSError):
            found = path.stat()
            # A copy may have the time of what it was copied from.
            if S_ISREG(found.st_mode) and (since is None or found.st_ctime > since):
                size += found.st_size * (_SQUEEZED if path.suffix in _COMPRESSED else 1)
        if size > bounds[1]:
            return Work.MUCH
    return Work.LITTLE if size <= bounds[0] else Work.SOME


def _started(master: str | None, settings: dict[str, str], silenced: bool) -> "SparkSession":
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession
    except ImportError as exc:
        raise PipelineError(
            f"PySpark cannot be imported ({exc}): pip install celery-fair[spark]"
        ) from exc
    conf = SparkConf(loadDefaults=False).setAppName("celery-fair").setAll(list(settings.items()))
    if master is not None:
        conf = conf.setMaster(master)
    said = _java_says()
    before = said.seek(0, os.SEEK_END)
    try:
        if silenced and SparkContext._gateway is None:
            # Java warns of what nobody here can mend, and what goes wrong in a job comes to Python
            # all the same. Nor has it a part in standard output, which may be JSON.
            java = launch_gateway(conf, {"stdout": said, "stderr": said})  # type: ignore[no-untyped-call]
            SparkContext._ensure_initialized(gateway=java)
        session = SparkSession.builder.config(conf=conf).getOrCreate()
    except Exception as exc:  # Python's, Py4J's or Java's: there is no session
        said.seek(before)
        raise PipelineError(
            f"no Spark session with master {master!r}: {root_cause(exc, said.read())}; "
            "python -m celery_fair pipeline doctor looks for the cause"
        ) from exc
    session.sparkContext.setLogLevel("ERROR")
    if silenced:
        _silence_loggers()
    if not str(session.sparkContext.master).startswith("local"):
        _ship(session)
    _remember(session)
    return session


_LOOKED_UP = ("functions", "PythonSQLUtils", "PythonUtils", "org.apache.spark.sql.functions")


def _remember(session: "SparkSession") -> None:
    """Look Java's classes for columns up once.

    Else PySpark has Java look for them whenever a column is named, in each of its archives: that
    is a tenth of what it takes to plan a small job.
    """
    from py4j.java_gateway import JavaClass

    class Remembered(JavaClass):  # type: ignore[misc]
        def __getattr__(self, name: str) -> object:
            found = super().__getattr__(name)
            setattr(self, name, found)
            return found

    java = session.sparkContext._jvm
    assert java is not None  # the session is made
    for name in _LOOKED_UP:
        setattr(java, name, Remembered(getattr(java, name)._fqn, java._gateway_client))


@cache
def _java_says() -> TextIO:
    """Return the file in which is what Java has said, as long as this process lives.

    Both write at its end, wherever the other has read it.
    """
    file = tempfile.TemporaryFile("a+", errors="replace")  # noqa: SIM115 - it stays open
    atexit.register(file.close)
    return file


def memory_ran_out() -> str:
    """Return what Java has said of that; "" if nothing.

    It may end by it, or go on without one of its threads: then what comes to Python is something
    else.
    """
    if not _java_says.cache_info().currsize:  # it was not started
        return ""
    said = _java_says()
    said.seek(0)
    return next((line.strip() for line in said if "OutOfMemoryError" in line), "")


def _silence_loggers() -> None:
    """Have PySpark and Py4J write no error besides raising it, with Java's stack or Python's.

    At an interrupt Py4J tells twice what it was waiting for.
    """
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_no_py4j)


def _is_no_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def _ship(session: "SparkSession") -> None:
    """Give executors this package, whose scheduler replays run on; they need no installation."""
    root, context = Path(__file__).parents[1], session.sparkContext
    if any(path.endswith(f"/{root.name}.zip") for path in context.listFiles):
        return
    # The driver hands out this very file, to each executor when that begins its first task.
    folder = tempfile.mkdtemp(prefix=f"{root.name}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    context.addPyFile(shutil.make_archive(f"{folder}/{root.name}", "zip", root.parent, root.name))
