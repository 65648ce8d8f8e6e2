"""What the pipeline says of many worlds, in one job, held against the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from celery_fair.pipeline.bronze import parsed
from celery_fair.pipeline.gold.audit import audit
from celery_fair.pipeline.silver.attempts import attempts
from celery_fair.pipeline.silver.processes import gaps
from celery_fair.pipeline.silver.unread import UNREAD
from tests.pipeline.staged import doubts_of, events, processes, quarantine
from tests.worlds.files import T0, Folder
from tests.worlds.truth import Truth
from tests.worlds.world import CLOCKS, SINCE, World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Result", "judge"]

PROVEN = ("REPLAYABLE", "LOST", "FINISHED")


@dataclass
class Result:
    """Of some worlds.

    Attributes:
        verdicts: how often each was given.
        provable: how many of each kind could be proven.
        proven: how many of those were.
        wrong: what was said that is not so.
    """

    worlds: int = 0
    attempts: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    provable: Counter[str] = field(default_factory=Counter)
    proven: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def add(self, other: Result) -> None:
        self.worlds += other.worlds
        self.attempts += other.attempts
        for mine, theirs in (
            (self.verdicts, other.verdicts),
            (self.provable, other.provable),
            (self.proven, other.proven),
        ):
            mine.update(theirs)
        self.wrong += other.wrong
        self.missed += other.missed

    @property
    def share(self) -> float:
        """Of what could be proven, what was."""
        return self.proven.total() / max(1, self.provable.total())


def judge(
    spark: SparkSession, numbers: Sequence[int], seed: int, late_ones: bool, scratch: Path
) -> Result:
    """Make worlds, have the pipeline judge what it reads of them, and judge that.

    Arguments:
        late_ones: whether the files that come late are there.
        scratch: a folder for the lines.
    """
    worlds = [World(number, seed) for number in numbers]
    folders = [Folder(world) for world in worlds]
    said = _verdicts(spark, folders, late_ones, scratch)
    result = Result(worlds=len(worlds))
    for world, folder in zip(worlds, folders, strict=True):
        truth = Truth(world, folder, late_ones)
        for attempt in world.attempts:
            verdict, why = said.get((attempt.id, attempt.retries), ("", ""))
            result.attempts += bool(verdict)
            result.verdicts[verdict or "not there"] += 1
            if wrong := truth.wrong(attempt, verdict):
                result.wrong.append(f"{attempt.id}/{attempt.retries}, seed {seed}: {wrong}")
            provable = truth.provable(attempt)
            if provable:
                result.provable[provable] += 1
                result.proven[provable] += verdict == provable
                if verdict != provable:
                    result.missed.append(f"{attempt.id}: {provable}, and {verdict}: {why}")
    return result


def _verdicts(
    spark: SparkSession, folders: Sequence[Folder], late_ones: bool, scratch: Path
) -> dict[tuple[str, int], tuple[str, str]]:
    lines = [line for folder in folders for line in folder.lines(late_ones)]
    unread = [(*row, None) for folder in folders for row in folder.unread(late_ones)]
    files, texts = zip(*lines, strict=True)
    path = scratch / f"lines-{folders[0].world.name}-{late_ones}.parquet"
    schema = pa.schema([("file", pa.string()), ("value", pa.string())])
    texts = [text.decode("utf-8", "replace") for text in texts]
    pq.write_table(pa.table([list(files), texts], schema=schema), path)
    staged = parsed(spark.read.parquet(str(path)))
    found = events(staged).localCheckpoint()
    lived = processes(found, quarantine(staged)).localCheckpoint()
    not_read = spark.createDataFrame(unread, UNREAD)
    doubted = _within_its_world(doubts_of(lived, gaps(found, lived), not_read)).localCheckpoint()
    # Who says since when all write logs adds what the clocks may be off by.
    audited = audit(attempts(found), lived, doubted, T0 + SINCE + 2 * CLOCKS)
    rows = audited.select("id", "retries", "verdict", "why").collect()
    path.unlink()
    return {(row[0], row[1]): (row[2], row[3]) for row in rows}


def _within_its_world(doubted: DataFrame) -> DataFrame:
    """A doubt about every queue is about those of its world: worlds know nothing of each other."""
    from pyspark.sql import functions as F

    world = F.regexp_extract("boot", "^w[0-9]+", 0)
    every = F.array(*(F.concat(world, F.lit(f".q{number}")) for number in range(4)))
    return doubted.withColumn("queues", F.coalesce("queues", every))
