"""HDFS on loopback: a name node and a data node, of Hadoop 2.7, as child processes."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from xml.sax.saxutils import escape

from tests.brokers.missing import program
from tests.brokers.zookeeper import PLACES
from tests.ports import accepts, free_port
from tests.processes import ROOT, Process, folder
from tests.waiting import wait_for

__all__ = ["JARS", "Hdfs"]

JARS = ROOT / "var" / "hadoop"
"""What `make hadoop` fetches."""

SERVERS = "org.apache.hadoop.hdfs.server"
NAMES = (
    *("hadoop", "commons", "guava", "jetty", "log4j-1", "slf4j", "protobuf", "htrace", "netty"),
    *(
        "javax.servlet",
        "javax.ws",
        "servlet",
        "xmlenc",
        "xerces",
        "jackson-core-asl",
        "jackson-mapper-asl",
    ),
    *("leveldbjni", "jsp"),
)
# It was written for Java 8, and looks into what a later one keeps to itself.
JAVA = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
JAVA += tuple(
    word
    for package in (
        *("java.base/java.lang", "java.base/java.nio", "java.base/sun.nio.ch"),
        "java.security.jgss/sun.security.krb5",
    )
    for word in ("--add-opens", f"{package}=ALL-UNNAMED")
)
JAVA += ("--add-exports", "java.security.jgss/sun.security.krb5=ALL-UNNAMED")
LOG = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%p %c{1}: %m%n
"""


class Hdfs:
    def __init__(self) -> None:
        self._java = program("java", *PLACES, package="openjdk-17-jre-headless")
        self.folder = folder("hdfs")
        self.port = free_port()
        self._servers: list[Process] = []
        jars = sorted(path for path in JARS.glob("*.jar") if path.name.startswith(NAMES))
        self._classes = ":".join(map(str, (self.folder, *jars)))
        for name in ("hdfs", "datanode"):  # what their pages would be made of
            page = self.folder / "webapps" / name / "WEB-INF" / "web.xml"
            page.parent.mkdir(parents=True)
            page.write_text("<web-app/>")
        (self.folder / "log4j.properties").write_text(LOG)
        self._configure("core-site", {"fs.defaultFS": self.url()})
        anywhere = (
            *("dfs.namenode.http-address", "dfs.datanode.address"),
            *("dfs.datanode.http.address", "dfs.datanode.ipc.address"),
        )
        self._configure(
            "hdfs-site",
            {
                "dfs.namenode.name.dir": f"file://{self.folder}/names",
                "dfs.datanode.data.dir": f"file://{self.folder}/data",
                "dfs.replication": "1",
                "dfs.webhdfs.enabled": "false",
                "dfs.namenode.datanode.registration.ip-hostname-check": "false",
                "dfs.namenode.safemode.extension": "0",
            }
            | dict.fromkeys(anywhere, "127.0.0.1:0"),
        )

    def url(self, path: str = "") -> str:
        return f"hdfs://127.0.0.1:{self.port}{path}"

    def _configure(self, name: str, settings: dict[str, str]) -> None:
        rows = (
            f"<property><name>{key}</name><value>{escape(value)}</value></property>"
            for key, value in settings.items()
        )
        text = f"<configuration>{''.join(rows)}</configuration>"
        (self.folder / f"{name}.xml").write_text(text)

    def _run(self, server: str, *words: str) -> Process:
        log = self.folder / f"{server.rpartition('.')[2]}.log"
        args = [self._java, *JAVA, "-cp", self._classes, f"{SERVERS}.{server}", *words]
        return Process(args, log, os.environ)

    def start(self) -> None:
        formatted = self._run("namenode.NameNode", "-format", "-force")
        assert formatted.wait(60) == 0, formatted.log()
        formatted.end()
        self._servers = [self._run("namenode.NameNode")]
        wait_for(lambda: accepts(self.port), 60, self._servers[0].log)
        self._servers.append(self._run("datanode.DataNode"))

    def wait_ready(self) -> None:
        name = self._servers[0]
        wait_for(lambda: "Adding new storage ID" in name.log(), 60, name.log)

    def pause(self) -> None:
        """Let the name node answer nobody."""
        self._servers[0].send(signal.SIGSTOP)

    def end(self) -> None:
        for server in self._servers:
            server.end()
        shutil.rmtree(Path(self.folder), ignore_errors=True)
