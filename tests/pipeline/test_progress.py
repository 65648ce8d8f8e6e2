"""What a terminal shows while logs are read, and what settings of Spark's a command takes."""

from __future__ import annotations

import os
import re
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from celery_fair.cli import fair
from celery_fair.cli.pipeline.context import Context
from tests.pipeline.planted import Logs, Process
from tests.pipeline.test_commands import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_bar_on_a_terminal(
    spark: SparkSession, logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows the files that are open, too; where stderr is no terminal, there is none."""
    sealed, is_open = Process().boots(0), Process().boots(0)
    sealed.runs("a", 1)
    paths = [*logs.plant(sealed), logs.write("_open-1-n-9-b-0.jsonl", is_open.lines)]
    size = sum(path.stat().st_size for path in paths)
    controller, terminal = os.openpty()
    written: list[bytes] = []

    def read() -> None:
        while b"END" not in b"".join(written):
            written.append(os.read(controller, 4096))

    reader = threading.Thread(target=read)
    reader.start()
    monkeypatch.setenv("TERM", "xterm")
    words = ["pipeline", "ingest", logs.folder, tmp_path / "warehouse", "--include-open", "--json"]
    with os.fdopen(terminal, "w") as stderr, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", stderr)
        fair.main([str(word) for word in words], standalone_mode=False)
        print("END", file=stderr)
        reader.join()
        assert Context(None, "1g", {}, as_json=False, quiet=True).bar() is None
    os.close(controller)
    drawn = b"".join(written).decode()
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", drawn)
    assert "reading 1 new files and 1 open ones" in text
    assert "2 files, 4 rows" in text
    assert f"{size:,} of {size:,}" in text
    assert "4 rows\r\n" in drawn, "what is said after it stands below it"
    assert Context(None, "1g", {}, as_json=False, quiet=False).bar() is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["spark.sql.shuffle.partitions"], "is no setting of Spark's"),
        (["fs.s3a.secret.key=hidden"], "Hadoop's is spark.hadoop.fs.s3a.secret.key=…"),
        (["spark.sql.shuffle.partitions="], "written like spark.sql.shuffle.partitions=64"),
        (["shuffle.partitions=3"], "'shuffle.partitions' is no setting"),
        (["spark.a=1", "spark.a=2"], "'spark.a' is given twice"),
        (["spark.master=local"], "'spark.master' is given by --master"),
        (["spark.driver.memory=2g"], "given by --driver-memory"),
    ],
)
def test_settings_that_are_none(tmp_path: Path, words: list[str], said: str) -> None:
    done = run("waits", tmp_path, *(part for word in words for part in ("--conf", word)))
    assert done.exit_code == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    ("word", "said"),
    [
        *((word, "no size such as 4g") for word in ("4", "1x", "4GiB", "-1g", "")),
        ("0g", "512m"),
        ("1000t", "more than this machine has"),
    ],
)
def test_a_memory_that_java_does_not_take(tmp_path: Path, word: str, said: str) -> None:
    done = run("waits", tmp_path, "--driver-memory", word)
    assert done.exit_code == 2
    assert said in done.stderr
    assert not done.stdout


def test_settings_of_sparks(spark: SparkSession, tmp_path: Path) -> None:
    key = "spark.sql.shuffle.partitions"
    before = spark.conf.get(key)
    try:
        done = run("waits", tmp_path, "--conf", f"{key}=5", "--conf", "spark.app.word=a=b")
        assert (spark.conf.get(key), spark.conf.get("spark.app.word")) == ("5", "a=b")
    finally:
        spark.conf.set(key, before or "2")
    assert "has no table 'attempts'" in done.stderr
