"""Compressed files that break off: cut by a crash, or with a flipped bit.

A plain file that is cut is torn in one line; of a compressed one nobody can read what follows the
place, nor say how much that was. Spark ends the whole job for it, or passes over it in silence
(``ignoreCorruptFiles``). So all are read strictly, as nearly always none is broken. If that fails
those that are broken are sought, and read up to where they break off; what each has lost is a
doubt, see `celery_fair.pipeline.silver.unreadable`.
"""

from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession

from celery_fair.pipeline.log_files import unglobbed

__all__ = ["broken", "is_broken", "is_compressed", "reads"]

_ENDS = (".gz", ".zst")
_FAILED = "FAILED_READ_FILE.NO_HINT"


def is_compressed(path: str) -> bool:
    return path.endswith(_ENDS)


def is_broken(said: str) -> bool:
    """Whether an error of Spark's says that a compressed file is; another may be read later."""
    return _FAILED in said and any(f"{end}." in said for end in _ENDS)


def broken(paths: Sequence[str], whole: Callable[[Sequence[str]], bool]) -> list[str]:
    """Return those that are broken, by halves: of n files k take about k log(n / k) attempts.

    Arguments:
        whole: whether all of some files can be read to their ends.
    """
    if not paths or whole(paths):
        return []
    if len(paths) == 1:
        return list(paths)
    half = len(paths) // 2
    return [*broken(paths[:half], whole), *broken(paths[half:], whole)]


def reads(spark: SparkSession, paths: Sequence[str]) -> bool:
    """Whether Spark reads files to their ends."""
    lines = spark.read.text([unglobbed(path) for path in paths], lineSep="\n")
    try:
        lines.write.format("noop").mode("overwrite").save()
    except Exception as exc:  # Spark's errors have no common class; others are re-raised
        if not is_broken(str(exc)):
            raise
        return False
    return True
