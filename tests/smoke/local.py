"""Local processes in the shape of containers.

pytest-celery reaches a container through few attributes and methods, which it
only duck-types: those are here, over this suite's own brokers and over a
worker that runs the very files which a container would be given.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

from tests.brokers import Space
from tests.preloaded import PreloadedCelery
from tests.processes import ROOT
from tests.smoke.setup import SmokeWorkerContainer
from tests.waiting import wait_for


class LocalContainer:
    """What all nodes have in common."""

    attrs: ClassVar[dict[str, Any]] = {}

    def __init__(self, name: str) -> None:
        # Twelve hexadecimal digits: the part of an id that Docker shows.
        self.id = uuid4().hex[:12]
        self.name = f"{name}-{self.id}"

    def reload(self) -> None:
        """Everything is read when asked for."""

    def exec_run(self, command: str) -> tuple[int, bytes]:
        done = subprocess.run(command, shell=True, capture_output=True, check=False)
        return done.returncode, done.stdout

    def teardown(self) -> None:
        """Called twice by pytest-celery."""


class LocalBroker(LocalContainer):
    """A place on a broker of this suite; restarting it restarts the broker."""

    def __init__(self, space: Space) -> None:
        super().__init__(space.kind)
        self._space = space
        self._server = space.server

    @property
    def celeryconfig(self) -> dict[str, Any]:
        url = self._space.url
        return {
            "url": url,
            "host_url": url,
            "hostname": "127.0.0.1",
            "port": self._server.port,
            "vhost": self._space.place,
        }

    @property
    def status(self) -> str:
        return "running" if self._server.running else "exited"

    def ready(self) -> bool:
        return self._server.running

    def logs(self) -> str:
        return self._server.log()

    def kill(self, signal: str | int = "SIGKILL") -> None:
        (self._server.kill if signal_number(signal) == 9 else self._server.stop)()

    def restart(self, timeout: float) -> None:
        self._server.restart()


class LocalWorker(LocalContainer):
    """A worker on files that pytest-celery made for a container's volume."""

    def __init__(
        self,
        folder: Path,
        content: Mapping[str, bytes],
        command: Sequence[str],
        env: Mapping[str, str],
    ) -> None:
        super().__init__("worker")
        self._folder = folder
        self._log = folder / "worker.log"
        self._env = env
        for name, source in content.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source)
        program, *self._arguments = (word.replace("%h", self.id) for word in command)
        assert program == "celery"
        self._start()

    def _start(self) -> None:
        # The ready prompt of an earlier start would be taken for this one's.
        self._log.write_bytes(b"")
        path = os.pathsep.join((str(self._folder), str(ROOT)))
        env = os.environ | self._env | {"PYTHONPATH": path}
        self._process = PreloadedCelery(self._arguments, self._log, env, cwd=self._folder)

    @property
    def status(self) -> str:
        return "running" if self._process.running else "exited"

    def ready(self) -> bool:
        return bool(wait_for(self._says_ready, 30, self.logs))

    def _says_ready(self) -> bool:
        return " ready." in self.logs()

    def logs(self) -> str:
        return self._process.log()

    def exec_run(self, command: str) -> tuple[int, bytes]:
        return super().exec_run(f"cd '{self._folder}' && {command}")

    def kill(self, signal: str | int = "SIGKILL") -> None:
        """As in a container, where the death of the main process is everyone's."""
        self._process.send(signal_number(signal))
        self._process.wait()
        self._process.end()

    def restart(self, timeout: float) -> None:
        if self._process.running:
            self._process.send(signal.SIGTERM)
            self._process.wait(timeout)
        self._process.end()
        self._start()

    def teardown(self) -> None:
        self._process.end()

    @classmethod
    def worker_name(cls) -> str:
        return SmokeWorkerContainer.worker_name()

    @classmethod
    def worker_queue(cls) -> str:
        return SmokeWorkerContainer.worker_queue()

    @classmethod
    def log_level(cls) -> str:
        return SmokeWorkerContainer.log_level()

    @classmethod
    def version(cls) -> str:
        return SmokeWorkerContainer.version()


def signal_number(name: str | int) -> int:
    return int(signal.Signals[name]) if isinstance(name, str) else name
