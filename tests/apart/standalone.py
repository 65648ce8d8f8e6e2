"""A standalone cluster of Spark's on loopback: a master, and executors of one core each."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from celery_fair.pipeline.java import find_java
from tests.ports import free_port
from tests.processes import ROOT, Process
from tests.waiting import wait_for

__all__ = ["CONF", "SPARK_HOME", "Standalone", "environment", "standalone"]

STARTS_WITHIN = 120


def spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


SPARK_HOME = spark_home()


CONF = Path(__file__).with_name("conf")
"""Spark's settings for small jobs."""


def environment(conf: Path | None = None) -> dict[str, str]:
    """What Spark's programs need to know, and that nobody may reach them from elsewhere.

    Arguments:
        conf: the folder of Spark's settings; None: Spark's own defaults.
    """
    return (
        os.environ
        | ({} if conf is None else {"SPARK_CONF_DIR": str(conf)})
        | {
            "JAVA_HOME": find_java(os.environ).home,
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
        }
    )


class Standalone:
    """The cluster; its master's log says what it did.

    Arguments:
        folder: for logs and for what executors leave behind.
        executors: how many an application gets.
        memory: of each.
    """

    def __init__(self, stack: ExitStack, folder: Path, executors: int, memory: str) -> None:
        self._stack, self._folder = stack, folder
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self._master = self._start("master.Master", "master", f"--port={port}", "--webui-port=0")
        self._until("I have been elected leader", 1)
        for number in range(executors):
            name = f"worker{number}"
            work = ("--cores=1", f"--memory={memory}", f"--work-dir={folder / name}")
            self._start("worker.Worker", name, *work, "--webui-port=0", self.url)
        self._until("Registering worker", executors)

    def executors(self) -> int:
        """How many were launched so far, for all applications together."""
        return self._master.log().count("Launching executor")

    def _start(self, daemon: str, name: str, *options: str) -> Process:
        words = [part for option in options for part in option.split("=", 1)]
        program = SPARK_HOME / "bin" / "spark-class"
        process = Process(
            [program, f"org.apache.spark.deploy.{daemon}", "--host", "127.0.0.1", *words],
            self._folder / f"{name}.log",
            environment(),
            cwd=self._folder,
        )
        self._stack.callback(process.end)
        return process

    def _until(self, words: str, times: int) -> None:
        log = self._master.log
        wait_for(lambda: log().count(words) >= times, STARTS_WITHIN, log, interval=0.2)


@contextmanager
def standalone(folder: Path, executors: int, memory: str = "1g") -> Iterator[Standalone]:
    """Start a cluster; end it with the context."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        yield Standalone(stack, folder, executors, memory)
