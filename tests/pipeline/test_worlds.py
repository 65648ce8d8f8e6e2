"""The audit against an oracle: random worlds whose truth is known, many in one job.

``make worlds`` has ten thousand of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.worlds.judged import PROVEN, judge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_nothing_is_said_that_is_not_so(spark: SparkSession, tmp_path: Path) -> None:
    found = judge(spark, range(80), 8, late_ones=False, scratch=tmp_path)
    assert found.worlds == 80
    assert found.wrong == []
    assert found.share >= 0.8
    assert all(found.proven[verdict] for verdict in PROVEN)
