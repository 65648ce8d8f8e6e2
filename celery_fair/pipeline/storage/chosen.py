"""Which store an address has."""

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.storage.address import is_remote, local_path, scheme_of
from celery_fair.pipeline.storage.local import LocalStore
from celery_fair.pipeline.storage.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["store_at"]


def store_at(
    where: Path | str | Store, spark: "SparkSession | None" = None, one_writer: bool = False
) -> Store:
    """Return the store of a path or a URI; a store itself as it is.

    Arguments:
        spark: whose Hadoop reads what is not on this machine; paths need none.
        one_writer: whether nobody else writes there, see `celery_fair.pipeline.storage`.
    """
    if isinstance(where, Path):
        return LocalStore(where)
    if not isinstance(where, str):
        return where
    if not is_remote(where):
        return LocalStore(local_path(where))
    if ":" in urlsplit(where).netloc.rpartition("@")[0]:
        raise PipelineError(
            f"an address of {scheme_of(where)} has a password in it, which would be told with each"
            " file: leave it out, and give it by --conf spark.hadoop.…, or by one of Hadoop's"
            " credential providers"
        )
    if spark is None:
        raise ValueError(f"{where} is read by a Spark session: give one")
    from celery_fair.pipeline.storage.hadoop import HadoopStore

    return HadoopStore(spark, where, one_writer)
