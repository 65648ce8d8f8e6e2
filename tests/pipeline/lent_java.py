"""One JVM for the Spark sessions of several processes, one after the other.

The lender starts it, and tells the processes of it by `VARIABLE` in their environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["VARIABLE", "LentJava", "borrowed_java"]

VARIABLE = "CELERY_FAIR_TEST_JAVA"

OPTIONS = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
    " -Xms640m -Xmn320m",
}


class LentJava:
    """The lender's: a JVM that lives until `end`."""

    def __init__(self) -> None:
        from pyspark import SparkConf
        from pyspark.java_gateway import launch_gateway

        from celery_fair.pipeline.session import _LOCAL

        conf = SparkConf(loadDefaults=False)
        for name, value in {**_LOCAL, **OPTIONS}.items():
            conf.set(name, value)
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._gateway = launch_gateway(conf, silent)

    @property
    def variables(self) -> dict[str, str]:
        """What a process's environment needs to borrow it."""
        given = self._gateway.java_parameters
        lent = json.dumps([str(given.port), given.auth_token])
        return {VARIABLE: lent, "PYSPARK_PYTHON": sys.executable}  # its workers' Python

    def is_free(self) -> bool:
        """Whether nobody left a session in it."""
        from py4j.protocol import Py4JError

        try:
            session = self._gateway.jvm.org.apache.spark.sql.SparkSession.getDefaultSession()
            return session.isEmpty() or session.get().sparkContext().isStopped()
        except Py4JError:
            return False

    def end(self) -> None:
        self._gateway.shutdown()
        self._gateway.proc.stdin.close()
        self._gateway.proc.wait(30)


@contextmanager
def borrowed_java() -> Iterator[bool]:
    """Let a session that is made in this context be made in the lender's JVM; whether there is one.

    Commands that tests run are to start their own: only here PySpark's own variables are set.
    """
    if VARIABLE not in os.environ:
        yield False
        return
    names = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
    os.environ.update(zip(names, json.loads(os.environ[VARIABLE]), strict=True))
    try:
        yield True
    finally:
        for name in names:
            del os.environ[name]
