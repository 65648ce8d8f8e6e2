"""Tables of a catalog besides those of the warehouse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from celery_fair.cli import fair
from tests.pipeline.planted import Logs, Process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATABASE = "jdbc:derby:memory:fair"


def run(*words: object) -> Result:
    return CliRunner().invoke(fair, ["pipeline", *map(str, words), "--quiet"])


def test_what_is_published_is_a_table_of_a_catalog(
    spark: SparkSession, logs: Logs, tmp_path: Path
) -> None:
    """Of Spark's own for databases; a table is made anew with each version."""
    spark.conf.set(
        "spark.sql.catalog.lake",
        "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
    )
    spark.conf.set("spark.sql.catalog.lake.url", f"{DATABASE};create=true")
    spark.conf.set("spark.sql.catalog.lake.driver", "org.apache.derby.jdbc.EmbeddedDriver")
    warehouse = tmp_path / "warehouse"
    worker = Process().boots(0)
    worker.runs("a", 1, published=0.5)
    logs.plant(worker)
    assert run("ingest", logs.folder, warehouse).exit_code == 0
    for _ in range(2):
        done = run("waits", warehouse, "--tables-in", "lake.FAIR", "--json")
        (row,) = json.loads(done.stdout)
        assert [each.asDict() for each in spark.table("lake.FAIR.waits").collect()] == [row]
        assert row["started"] == 1


@pytest.mark.wide
def test_which_catalog_is_missing_is_told(spark: SparkSession, logs: Logs, tmp_path: Path) -> None:
    """By name, before anything is done."""
    iceberg = "org.apache.iceberg.spark.SparkCatalog"
    spark.conf.set("spark.sql.catalog.ice", iceberg)
    (tmp_path / "warehouse").mkdir()
    for schema, said in (
        ("ice.fair", f"this Spark has no {iceberg}: give it one with --conf spark.jars.packages="),
        ("nowhere.fair", "there is no catalog nowhere: say what it is, such as with --conf"),
        ("spark_catalog.default", "cannot replace a table: make it Iceberg's or Delta's"),
        ("fair", "'fair' is no schema of a catalog: write CATALOG.SCHEMA"),
    ):
        done = run("waits", tmp_path / "warehouse", "--tables-in", schema)
        assert done.exit_code == 1
        (line,) = done.stderr.splitlines()
        assert said in line
