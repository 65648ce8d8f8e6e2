"""How much of the logs a job of Spark's has read so far.

Spark's own bar counts tasks, and knows neither files nor rows. What its executors have read they
tell when a task ends, and every ten seconds before.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERY = 0.5
_SETTLE = 2000  # milliseconds


class Read(NamedTuple):
    """What has been read.

    Attributes:
        files: how many there are to read.
        bytes: read of `size`, which is that of all files; of a compressed one, as it is.
        rows: lines that were in there.
    """

    files: int
    bytes: int
    size: int
    rows: int


Show = Callable[[Read | None], None]
"""Is shown what has been read, by any thread; None when no more will be for now."""


@contextmanager
def told(spark: "SparkSession", files: int, size: int, show: Show | None) -> Iterator[None]:
    """Show now and then how far the jobs are that are run in it, and at last what they have read.

    Arguments:
        files, size: what is to be read.
        show: None: nobody wants to know.
    """
    if show is None:
        yield
        return
    context: Any = spark.sparkContext
    group, over = f"reading-{secrets.token_hex(4)}", Event()

    def watch() -> None:
        while not over.wait(_EVERY):
            done, rows = _read(context, group)
            show(Read(files, min(done, size), size, rows))

    thread = Thread(target=watch, name="celery-fair progress", daemon=True)
    context.setJobGroup(group, "reading event logs")
    thread.start()
    try:
        yield
        with suppress(_java_error()):  # some are still missing after that time
            context._jsc.sc().listenerBus().waitUntilEmpty(_SETTLE)
        show(Read(files, size, size, _read(context, group)[1]))
    finally:
        over.set()
        thread.join()
        show(None)
        for name in ("spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(name, None)


def _read(context: Any, group: str) -> tuple[int, int]:
    """Return bytes and rows that the jobs of a group have read."""
    tracker = context.statusTracker()
    jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
    found = [_of_stage(context, stage) for job in jobs for stage in job.stageIds]
    return sum(size for size, _ in found), sum(rows for _, rows in found)


def _of_stage(context: Any, stage: int) -> tuple[int, int]:
    try:
        found = context._jsc.sc().statusStore().lastStageAttempt(stage)
    except _java_error():  # it is not known there yet, or not any more
        return 0, 0
    return found.inputBytes(), found.inputRecords()


def _java_error() -> type[Exception]:
    from py4j.protocol import Py4JJavaError

    return Py4JJavaError  # type: ignore[no-any-return]
