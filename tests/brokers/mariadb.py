"""MariaDB as a child process: no broker, but a ledger's and a group store's database.

Its character set, its collation and its time zone are those that a database would have trouble with
which did not name its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from itertools import count

from tests.brokers.missing import program
from tests.ports import free_port
from tests.processes import Process, folder
from tests.waiting import wait_for

PACKAGE = "mariadb-server"
SETTINGS = {
    "bind-address": "127.0.0.1",
    "character-set-server": "latin1",
    "collation-server": "latin1_swedish_ci",
    "default-time-zone": "-05:00",
    "innodb-flush-log-at-trx-commit": "0",
}


class MariaDB:
    def __init__(self) -> None:
        self._program = program("mariadbd", "/usr/sbin/mariadbd", package=PACKAGE)
        self._become = ["--user=root"] if os.geteuid() == 0 else []
        self.folder = folder("mariadb")
        self.port = free_port()
        self._databases = count()
        self._process: Process | None = None

    def start(self) -> None:
        data = self.folder / "data"
        if not data.exists():
            self._run(
                "mariadb-install-db",
                "--no-defaults",
                *self._become,
                f"--datadir={data}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            )
        files = {"socket": "server.sock", "pid-file": "server.pid"}
        settings = SETTINGS | {name: str(self.folder / file) for name, file in files.items()}
        self._process = Process(
            [
                str(self._program),
                "--no-defaults",
                *self._become,
                f"--datadir={data}",
                f"--port={self.port}",
                *(f"--{name}={value}" for name, value in settings.items()),
            ],
            self.folder / "server.log",
            os.environ,
            cwd=self.folder,
        )

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, cwd=self.folder, text=True, capture_output=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"

    @property
    def _at(self) -> list[str]:
        return ["--no-defaults", "--protocol=tcp", "-h", "127.0.0.1", f"-P{self.port}", "-uroot"]

    def wait_ready(self, timeout: float = 60) -> None:
        wait_for(self._answers, timeout, lambda: f"MariaDB:\n{self.log()}")

    def _answers(self) -> bool:
        asked = ["mariadb-admin", *self._at, "--silent", "ping"]
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0

    def database(self) -> str:
        """The URL of a new database."""
        name = f"test{next(self._databases)}"
        self._run("mariadb", *self._at, "-e", f"CREATE DATABASE {name}")
        return f"mariadb+pymysql://root@127.0.0.1:{self.port}/{name}"

    def stop(self) -> None:
        if self._process is not None:
            if self._process.running:
                self._process.send(signal.SIGTERM)
                self._process.wait()
            self._process.end()
            self._process = None

    def end(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        path = self.folder / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""
