"""The log's files, and the lines in them.

A file is recognised by its path, size and time of change; a sealed file never changes, so a second
run reads nothing. Of files that are being written copies are read: Spark leaves out files whose
names begin with an underscore, and these go on while they are read.

A compressed file may break off: cut by a crash, or with a flipped bit. A plain file that is cut is
torn in one line; of a compressed one nobody can read what follows the place, nor say how much that
was. Spark ends the whole job for it, or passes over it in silence (``ignoreCorruptFiles``). So all
are read strictly, as nearly always none is broken. If that fails those that are broken are sought,
and read up to where they break off; what each has lost is a doubt, see
`celery_fair.pipeline.silver.unread`.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from celery_fair.pipeline.bronze import parsed, sorted_out
from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.log_files import log_files, unglobbed
from celery_fair.pipeline.silver.unread import BREAKS_OFF, CANNOT_BE_NAMED
from celery_fair.pipeline.warehouse import Warehouse, address

_OPEN = "_open-*.jsonl"
_COMPRESSED = (".gz", ".zst")
_ENDS = (".jsonl", *(f".jsonl{end}" for end in _COMPRESSED))
_FAILED = "FAILED_READ_FILE.NO_HINT"


def check(logs: Path) -> None:
    """See to it that there is something to read.

    Raises:
        PipelineError: `logs` is no folder, or cannot be read, or has no file of a log.
    """
    if not logs.is_dir():
        raise PipelineError(f"{logs} is no folder: give the one that fair_event_log names")
    if not any(path.name.endswith(_ENDS) for path in log_files(logs, "*")):
        raise PipelineError(
            f"{logs} has no file of an event log (*{', *'.join(_ENDS)}): is it the"
            " folder that fair_event_log names?"
        )


def open_copies(warehouse: Warehouse, logs: Path) -> list[Path]:
    """Return copies of the open files, under names that Spark reads, all in one folder."""
    folder = warehouse.root / warehouse.scratch("open")
    folder.mkdir()
    copies = []
    for number, path in enumerate(sorted(log_files(logs, _OPEN))):
        copy = folder / f"{number}-{path.name.removeprefix('_')}"
        with suppress(FileNotFoundError):  # sealed just now: it is read as such
            copy.write_bytes(path.read_bytes())
            copies.append(copy)
    return copies


def sealed_files(spark: SparkSession, logs: Path) -> DataFrame:
    """Every sealed file (`file`, `size`, `changed`)."""
    # What is being packed may be overlooked, its files and the pack, but not twice.
    return _listed(spark, logs).unionByName(_listed(spark, logs)).distinct()


def _listed(spark: SparkSession, logs: Path) -> DataFrame:
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", True)
    reader = reader.option("pathGlobFilter", f"*{{{','.join(_ENDS)}}}")
    # Hadoop cannot read what it takes for a scheme and a path, and nothing else beside it.
    named = reader.load(unglobbed(f"file:{logs}")).where(~F.col("path").rlike(CANNOT_BE_NAMED))
    return named.selectExpr("path as file", "length as size", "modificationTime as changed")


def staged(
    warehouse: Warehouse, paths: list[str], copies: list[Path], say: Callable[[str], None]
) -> tuple[dict[str, str], list[str]]:
    """Write what the lines of files are, of those that break off up to there.

    Returns:
        The folders of both tables, see `Warehouse.split`, and the files that break off.
    """
    try:
        return _split(warehouse, paths, copies), []
    except Exception as exc:  # Spark's errors have no common class; others are re-raised
        if not is_broken(str(exc)):
            raise
    say("a compressed file is cut short or broken: looking for all that are")
    compressed = sorted(path for path in paths if not path.endswith(".jsonl"))
    found = broken(compressed, lambda some: _reads(warehouse.spark, some))
    return _split(warehouse, paths, copies, found), found


def _split(
    warehouse: Warehouse, paths: list[str], copies: list[Path], broken_off: Sequence[str] = ()
) -> dict[str, str]:
    spark = warehouse.spark
    staged = parsed(_lines(spark, [path for path in paths if path not in broken_off]))
    if copies:
        of_open = parsed(_lines(spark, [address(copies[0].parent)]))
        staged = staged.unionByName(of_open.where("wrong is null"))
    if broken_off:
        named = spark.read.format("binaryFile").load([unglobbed(path) for path in broken_off])
        marks = named.select(
            F.col("_metadata.file_path").alias("file"),
            F.lit("").alias("text"),
            F.lit(BREAKS_OFF).alias("wrong"),
        )
        rest = parsed(_lines(spark, broken_off, lenient=True))
        staged = staged.unionByName(rest).unionByName(marks, allowMissingColumns=True)
    return warehouse.split(sorted_out(staged), "table", ["events", "quarantine"])


def _lines(spark: SparkSession, paths: Sequence[str], lenient: bool = False) -> DataFrame:
    if not paths:
        return spark.createDataFrame([], "value string, file string")
    reader = spark.read.option("recursiveFileLookup", True).option("ignoreCorruptFiles", lenient)
    lines = reader.text([unglobbed(path) for path in paths], lineSep="\n")
    return lines.select("value", F.col("_metadata.file_path").alias("file"))


def is_broken(said: str) -> bool:
    """Whether an error of Spark's says that a compressed file is; another may be read later."""
    return _FAILED in said and any(f"{end}." in said for end in _COMPRESSED)


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


def _reads(spark: SparkSession, paths: Sequence[str]) -> bool:
    """Whether Spark reads files to their ends."""
    try:
        _lines(spark, paths).select("value").write.format("noop").mode("overwrite").save()
    except Exception as exc:  # Spark's errors have no common class; others are re-raised
        if not is_broken(str(exc)):
            raise
        return False
    return True
