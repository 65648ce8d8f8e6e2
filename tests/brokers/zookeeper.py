"""ZooKeeper as a child process: no broker, but a store of groups."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from tests.brokers.missing import library, program
from tests.ports import free_port
from tests.processes import Process, folder
from tests.waiting import wait_for

PACKAGE = "libzookeeper-java"
JARS = Path("/usr/share/java")
NAMES = ("zookeeper", "slf4j-simple")
PLACES = (f"{os.environ.get('JAVA_HOME', '')}/bin/java",)
MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
# A small machine that is soon there, and says in its log what is wrong.
JAVA = ("-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
JAVA += ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dzookeeper.forceSync=no")

CONFIG = """\
dataDir={folder}/data
clientPort={port}
clientPortAddress=127.0.0.1
tickTime=500
admin.enableServer=false
"""


class ZooKeeper:
    def __init__(self) -> None:
        self._jars = [library(JARS / f"{name}.jar", PACKAGE) for name in NAMES]
        self._program = program("java", *PLACES, package="openjdk-17-jre-headless")
        self.folder = folder("zookeeper")
        self.port = free_port()
        self._chroots = count()
        self._process: Process | None = None
        (self.folder / "zoo.cfg").write_text(CONFIG.format(folder=self.folder, port=self.port))

    @property
    def pid(self) -> int:
        assert self._process is not None, "ZooKeeper was not started"
        return self._process.pid

    def start(self) -> None:
        classes = ":".join(map(str, self._jars))
        args = [self._program, *JAVA, "-cp", classes, MAIN, self.folder / "zoo.cfg"]
        self._process = Process(args, self.folder / "server.log", os.environ)

    def wait_ready(self, timeout: float = 60) -> None:
        wait_for(self._answers, timeout, lambda: f"ZooKeeper:\n{self.log()}")

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as asking:
                asking.sendall(b"srvr")
                return b"Mode: standalone" in asking.recv(4096)
        except OSError:
            return False

    def url(self) -> str:
        """The URL of an empty store."""
        return f"zookeeper://127.0.0.1:{self.port}/test{next(self._chroots)}/groups"

    @contextmanager
    def client(self) -> Iterator[Any]:
        from kazoo.client import KazooClient

        client = KazooClient(f"127.0.0.1:{self.port}")
        client.start()
        yield client
        client.stop()
        client.close()

    def kill(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None

    def end(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")
