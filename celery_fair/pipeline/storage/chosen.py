"""Which store an address has."""

from pathlib import Path
from typing import TYPE_CHECKING

from celery_fair.pipeline.storage.address import is_remote, local_path, refuse_secrets
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

    Raises:
        PipelineError: the address has a secret in it, or there is no such file system.
    """
    if isinstance(where, Path):
        return LocalStore(where)
    if not isinstance(where, str):
        return where
    if not is_remote(where):
        return LocalStore(local_path(where))
    refuse_secrets(where)
    if spark is None:
        raise ValueError(f"{where} is read by a Spark session: give one")
    from celery_fair.pipeline.storage.hadoop import HadoopStore

    return HadoopStore(spark, where, one_writer)
