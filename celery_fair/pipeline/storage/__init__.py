"""Where logs and warehouse are; nothing else in the pipeline touches their files.

A *store* is a folder. Its address says of what kind it is: a path, or ``file:/…``, is a folder of
this machine (`local`), any other scheme one of a file system that Spark reads (`hadoop`): hdfs,
s3a, gs, abfs, viewfs, and what else the session's Hadoop has a class for, with the credentials of
its configuration.

Of a warehouse's store three things are asked:

1. A reader sees the pointer of one whole version, the former or the next one.
2. Of two that publish the same version one does, and the other is told so.
3. Nobody removes folders that another reads or writes; what was left by one that was killed goes.

Each version has a pointer of its own, ``current-<version>.json``, that is made only if there is
none: nobody waits for another, and one that is killed blocks nobody. On this machine that rests on
a lock and a rename. Elsewhere there are no locks, and what else there is differs:

=====================  ===============================  ===========================================
file system            a whole file                     only if there is none of the name
=====================  ===============================  ===========================================
hdfs, webhdfs, abfs    a draft, renamed                 a rename does not replace a file
s3a                    one PUT, seen when it is done    ``If-None-Match: *``, from Hadoop 3.4.2 on,
                                                        unless fs.s3a.create.conditional.enabled is
                                                        false or the store does not know it
gs                     one PUT, seen when it is done    generation 0
any other              a draft, renamed, or one file    not promised: who looks first may be
                                                        overtaken by another, who has looked, too
=====================  ===============================  ===========================================

Where that is not promised, whoever starts a command must say that there is no other writer.

A folder is held by a file that names it. On this machine its owner keeps it locked, and the lock
ends with the process; elsewhere it is a *lease*, and renewed while its owner lives. Others measure
its age by the store's own clock, and count it as left when it was not renewed for twice its time;
the owner measures by its own clock, and gives up after once that time: it then publishes nothing.
Folders of tables are renamed into place only before the pointer names them. So it does no harm that
a rename is not atomic in an object store, where it is a copy.
"""

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
        one_writer: whether nobody else writes there.

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
