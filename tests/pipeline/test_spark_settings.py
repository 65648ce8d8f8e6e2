"""What settings of Spark's a command takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.planted import pretend_warehouse
from tests.pipeline.test_commands import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["spark.sql.shuffle.partitions"], "is no setting of Spark's"),
        (["fs.s3a.secret.key=hidden"], "'fs.s3a.secret.key' is no setting of Spark's"),
        (["spark.sql.shuffle.partitions="], "written like spark.sql.shuffle.partitions=64"),
        (["shuffle.partitions=3"], "'shuffle.partitions' is no setting"),
    ],
)
def test_settings_that_are_none(tmp_path: Path, words: list[str], said: str) -> None:
    done = run("waits", tmp_path, *(part for word in words for part in ("--conf", word)))
    assert done.exit_code == 2
    assert said in done.stderr


@pytest.mark.parametrize("word", ["4", "1x", "4GiB", "-1g", "0g", ""])
def test_a_memory_that_java_does_not_take(tmp_path: Path, word: str) -> None:
    done = run("waits", tmp_path, "--driver-memory", word)
    assert done.exit_code == 2
    assert "no size such as 4g" in done.stderr
    assert not done.stdout


def test_settings_of_sparks(spark: SparkSession, tmp_path: Path) -> None:
    key = "spark.sql.shuffle.partitions"
    before = spark.conf.get(key)
    pretend_warehouse(tmp_path)
    try:
        done = run("waits", tmp_path, "--conf", f"{key}=5", "--conf", "spark.app.word=a=b")
        assert (spark.conf.get(key), spark.conf.get("spark.app.word")) == ("5", "a=b")
    finally:
        spark.conf.set(key, before or "2")
    assert "has no table 'attempts'" in done.stderr
