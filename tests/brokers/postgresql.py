"""PostgreSQL as a child process: no broker, but a ledger's database.

It refuses to run as root; as root it is run as the user that Debian's package makes.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psutil

from tests.brokers.missing import program
from tests.ports import free_port
from tests.processes import Process, folder
from tests.waiting import wait_for

PACKAGE = "postgresql"
USER = "postgres"
SETTINGS = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}


class PostgreSQL:
    def __init__(self) -> None:
        places = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin/postgres")), reverse=True)
        self._program = program("postgres", *places, package=PACKAGE)
        self._become = {"user": USER, "group": USER} if os.geteuid() == 0 else {}
        self.folder = folder("postgresql")
        self.port = free_port()
        self._databases = count()
        self._process: Process | None = None

    def start(self) -> None:
        if self._become:
            self.folder.parent.chmod(0o711)
            shutil.chown(self.folder, **self._become)
        if not Path(self._data).exists():
            self._run(
                "initdb", "-D", self._data, "-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8"
            )
        settings = [f"-c{name}={value}" for name, value in SETTINGS.items()]
        self._process = Process(
            [self._program, "-D", self._data, "-p", str(self.port), *settings],
            self.folder / "server.log",
            os.environ,
            **self._become,
            cwd=self.folder,
        )

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def _run(self, name: str, *args: str) -> None:
        command = [str(self._program.with_name(name)), *args]
        done = subprocess.run(
            command, **self._become, cwd=self.folder, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"

    def wait_ready(self, timeout: float = 60) -> None:
        wait_for(self._answers, timeout, lambda: f"PostgreSQL:\n{self.log()}")

    def _answers(self) -> bool:
        asked = [self._program.with_name("pg_isready"), "-q", "-h", "127.0.0.1", "-p", self.port]
        return subprocess.run([str(word) for word in asked], check=False).returncode == 0

    def database(self) -> str:
        """The URL of a new database."""
        name = f"test{next(self._databases)}"
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", USER, name)
        return f"postgresql+psycopg://{USER}@127.0.0.1:{self.port}/{name}"

    def stop(self) -> None:
        """Stop at once, without waiting for its clients."""
        if self._process is not None:
            if self._process.running:
                self._process.send(signal.SIGINT)
                self._process.wait()
            self._process.end()
            self._process = None

    @contextmanager
    def held_up(self) -> Iterator[None]:
        """Let none of its processes run for a while."""
        assert self._process is not None
        own = self._process.pid
        pids = [own, *(child.pid for child in psutil.Process(own).children(recursive=True))]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def end(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        path = self.folder / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""
