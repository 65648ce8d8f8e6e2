"""Gold tables in a catalog of Spark's, such as Iceberg's, besides those in the warehouse.

A table is made anew as a whole, as in the warehouse: by catalogs that can stage a table, as
Iceberg's and Delta's, at once; by others it is away for a moment.
"""

import re
from typing import TYPE_CHECKING

from celery_fair.pipeline.errors import PipelineError, root_cause

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Catalog"]

_NAMED = re.compile(r"\w+(\.\w+)+")
_JARS = {
    "org.apache.iceberg.": "org.apache.iceberg:iceberg-spark-runtime-{spark}_2.13:VERSION",
    "org.apache.spark.sql.delta.": "io.delta:delta-spark_2.13:VERSION",
}
_OWN = "spark_catalog"
_SETTING = "spark.sql.catalog.{}"


class Catalog:
    """A schema of a catalog, in which tables are made.

    Arguments:
        schema: its name, with the catalog's: ``lake.fair``.

    Raises:
        PipelineError: there is no such schema, or Spark has no class for its catalog.
    """

    def __init__(self, spark: "SparkSession", schema: str) -> None:
        self._schema = schema
        if not _NAMED.fullmatch(schema):
            raise PipelineError(f"{schema!r} is no schema of a catalog: write CATALOG.SCHEMA")
        catalog = schema.partition(".")[0]
        plugin = spark.conf.get(_SETTING.format(catalog), None)
        if plugin is None:
            raise PipelineError(_unknown(catalog))
        try:
            spark.sql(f"SHOW TABLES IN {schema}")
        except Exception as exc:  # Spark's errors have no common class; others are re-raised
            if not type(exc).__module__.startswith(("pyspark.", "py4j.")):
                raise
            hint = _hint(spark, str(plugin), str(exc))
            raise PipelineError(
                f"{schema} cannot be looked into: {root_cause(exc)}; {hint}"
            ) from exc

    def write(self, table: str, rows: "DataFrame") -> None:
        """Make a table anew.

        Raises:
            PipelineError: it cannot be written.
        """
        name = f"{self._schema}.{table}"
        try:
            rows.writeTo(name).createOrReplace()
        except Exception as exc:  # as above
            if not type(exc).__module__.startswith(("pyspark.", "py4j.")):
                raise
            raise PipelineError(
                f"{name} cannot be written: {root_cause(exc)}; the warehouse has the table: mend"
                " the catalog, and run it again"
            ) from exc


def _unknown(catalog: str) -> str:
    setting = _SETTING.format(catalog)
    if catalog == _OWN:
        return (
            f"{_OWN} as Spark has it cannot replace a table: make it Iceberg's or Delta's, such as"
            f" with --conf {setting}=org.apache.iceberg.spark.SparkSessionCatalog, or name another"
        )
    return (
        f"there is no catalog {catalog}: say what it is, such as with --conf"
        f" {setting}=org.apache.iceberg.spark.SparkCatalog and the settings of that"
    )


def _hint(spark: "SparkSession", plugin: str, said: str) -> str:
    jar = next((jar for start, jar in _JARS.items() if plugin.startswith(start)), None)
    if jar is not None and ("NOT_FOUND" in said or "ClassNotFound" in said) and plugin in said:
        jar = jar.format(spark=".".join(spark.version.split(".")[:2]))
        return f"this Spark has no {plugin}: give it one with --conf spark.jars.packages={jar}"
    return f"see that the schema is there, and that the settings of {plugin} are right"
