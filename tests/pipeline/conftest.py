"""The run's Spark session: one core, loopback, one partition: its jobs are small and many."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.java import find_java
from tests.pipeline.lent_java import borrowed_java
from tests.pipeline.planted import Logs, Process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.autoBroadcastJoinThreshold": "10m",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "0",  # nobody reads what is told of each plan
    "spark.sql.debug.maxToStringFields": "1",
    "spark.ui.liveUpdate.period": "-1",
    "spark.driver.extraJavaOptions": "-Xms640m -Xmn320m",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever Celery's version: Spark reads the same."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.newest)
            item.add_marker(pytest.mark.timeout(400))  # many jobs, each slow on a busy machine
            item.add_marker(pytest.mark.filterwarnings("default::ResourceWarning"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The run's session; see `celery_fair.pipeline.session`."""
    try:
        find_java(os.environ)
    except PipelineError as exc:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(str(exc))
    from celery_fair.pipeline.session import _LOCAL, Work, open_session

    scratch = tmp_path_factory.mktemp("spark")
    options = {**OPTIONS, "spark.local.dir": str(scratch), "spark.sql.warehouse.dir": str(scratch)}
    with borrowed_java() as borrowed:
        options = _LOCAL | options if borrowed else options
        # An archive of classes is for the next run, and takes a dozen seconds to write.
        with patch("celery_fair.pipeline.session.archive_options", return_value=""):
            session = open_session("local[1]", "1g", options, Work.LITTLE)
    yield session
    session.stop()
    if not borrowed:
        end_java()


def end_java() -> None:
    """End this process's JVM, which else ends some time after it."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    """A folder of event logs to plant."""
    return Logs(tmp_path / "logs of [a]{b,c}, 100%")


@pytest.fixture(scope="session")
def _version_1(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from celery_fair.pipeline.ingest import ingest
    from celery_fair.pipeline.warehouse import Warehouse

    folder = tmp_path_factory.mktemp("version-1")
    process = Process().boots(0)
    process.runs("a", 1)
    Logs(folder / "logs").plant(process)
    ingest(Warehouse(spark, folder / "warehouse"), folder / "logs")
    return folder / "warehouse"


@pytest.fixture
def version_1(_version_1: Path, tmp_path: Path) -> Path:
    """A warehouse with one attempt, `a`, of a process in other logs."""
    return Path(shutil.copytree(_version_1, tmp_path / "warehouse"))
