"""Real workers: `python -m celery -A ... worker`, each in a process of its own."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any

import psutil
from celery import Celery

from tests.apps.settings import AppSettings
from tests.brokers.space import Space
from tests.preloaded import PreloadedCelery
from tests.processes import ROOT, Process
from tests.records import Records
from tests.waiting import wait_for

DEFAULT_APP = "tests.apps.shares"

PLAIN_WAY = "CELERY_FAIR_TEST_PLAIN_WAY"
"""With this variable set, workers take the plain way where a test does not say."""

ENDS_WITHIN = 60
"""Seconds: a process of billiard's pool may wait 30 for its last result to be counted."""

BACK_WITHIN = 30
"""Seconds: the longer a broker is away, the longer Celery waits between two attempts to connect.

That a fair worker is back when Celery's own is, is shown in `tests/integration/test_reconnect.py`.
"""

ANSWERS_WITHIN = 60
"""Seconds: a solo worker answers between two tasks only."""

# What a worker talks about with other workers at its start takes seconds.
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")

_numbers = count()


class WorkerProcess:
    """A worker, started at once; `wait_ready()` before relying on it.

    `app` is a module's name, or the source of a module (anything with a line
    break), which usually starts with `from tests.apps.shares import *`.
    `queues` is what goes into `task_queues`; select with `args=["-Q", ...]`.
    One that is not `quiet` tells other workers of itself, as by default.
    `python` may be that of another environment, with another Celery. One that
    is started `afresh` imports Celery itself, after the app, as the command does.
    """

    def __init__(
        self,
        broker_url: str,
        folder: Path,
        *,
        app: str = DEFAULT_APP,
        fair: bool = True,
        pool: str = "solo",
        concurrency: int = 1,
        queues: Sequence[str] | None = None,
        queue_arguments: Mapping[str, Any] | None = None,
        conf: Mapping[str, Any] | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        loglevel: str = "WARNING",
        quiet: bool = True,
        records: Records | None = None,
        python: str = sys.executable,
        afresh: bool = False,
    ) -> None:
        number = next(_numbers)
        self.hostname = f"worker{number}@{os.getpid()}"
        self.records = records or Records(folder / "tasks")
        self._ready_fd, ready_fd = os.pipe()
        settings = AppSettings(
            broker_url=broker_url,
            records=str(self.records.prefix),
            queues=None if queues is None else list(queues),
            queue_arguments=dict(queue_arguments or {}),
            fair=fair,
            conf=({"fair_fast_path": False} if os.environ.get(PLAIN_WAY) else {})
            | dict(conf or {}),
            ready_fd=ready_fd,
        )
        patches = pool in ("gevent", "eventlet")
        afresh = afresh or patches or python != sys.executable
        start = Process if afresh else PreloadedCelery
        command = [python, "-m", "celery"] if afresh else []
        command += ["-A", _module(app, folder, number), "worker"]
        command += ["-n", self.hostname, "-P", pool, "-c", str(concurrency), "-l", loglevel]
        self._settings = settings
        self.process = start(
            [*command, *(QUIET if quiet else ()), *args],
            folder / f"worker{number}.log",
            os.environ
            | {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}
            | settings.environment()
            | dict(env or {}),
            cwd=folder,
            pass_fds=[ready_fd],
        )
        os.close(ready_fd)

    # Life -----------------------------------------------------------------

    def wait_ready(self, timeout: float = 60) -> WorkerProcess:
        """Block until the worker consumes; raise with its log if it does not."""
        readable, _, _ = select.select([self._ready_fd], [], [], timeout)
        if not readable or not os.read(self._ready_fd, 100):
            raise AssertionError(f"the worker did not get ready:\n{self.log()}")
        return self

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process.running

    @property
    def broker_url(self) -> str:
        return self._settings.broker_url

    def log(self) -> str:
        return self.process.log()

    def sigterm(self) -> None:
        """Ask for a warm shutdown."""
        self.process.send(signal.SIGTERM)

    def sigquit(self) -> None:
        """Ask for a cold shutdown."""
        self.process.send(signal.SIGQUIT)

    def kill(self) -> None:
        """SIGKILL for the main process; prefork children are left to notice."""
        self.process.kill()

    def wait(self, timeout: float = ENDS_WITHIN) -> int:
        """Wait for the main process to end; returns its exit code."""
        return self.process.wait(timeout)

    def stop(self, timeout: float = ENDS_WITHIN) -> int:
        """Warm shutdown, to its end."""
        self.sigterm()
        return self.wait(timeout)

    def end(self) -> None:
        """Make sure that nothing of the worker is left; always call it."""
        self.process.end()
        if self._ready_fd >= 0:
            os.close(self._ready_fd)
            self._ready_fd = -1
        if "client" in self.__dict__:
            self.client.close()

    # Observation ----------------------------------------------------------

    @cached_property
    def client(self) -> Celery:
        """An app on the worker's broker, for control commands and publishing."""
        app = Celery("client", broker=self._settings.broker_url, set_as_current=False)
        app.conf.update(self._settings.conf)
        return app

    def inspect(self, method: str, *args: Any, timeout: float = ANSWERS_WITHIN) -> Any:
        """This worker's answer to `celery inspect <method>`, or None."""
        self._listens  # noqa: B018
        inspector = self.client.control.inspect(destination=[self.hostname], timeout=timeout)
        return (getattr(inspector, method)(*args) or {}).get(self.hostname)

    def control(self, command: str, *, timeout: float = ANSWERS_WITHIN, **arguments: Any) -> Any:
        """This worker's answer to a control command, such as `add_consumer`."""
        self._listens  # noqa: B018
        replies = self.client.control.broadcast(
            command,
            arguments=arguments,
            destination=[self.hostname],
            reply=True,
            timeout=timeout,
        )
        return replies[0][self.hostname] if replies else None

    def cancel_consumer(self, *queues: str) -> None:
        """Have a queue (and its levels) consumed no more: the worker answers before it cancels."""
        assert "ok" in self.control("cancel_consumer", queue=queues[0])
        wait_for(lambda: not {*queues} & self._consumed(), 30, f"the end of {queues}")

    def _consumed(self) -> set[str]:
        return {queue["name"] for queue in self.inspect("active_queues")}

    @cached_property
    def _listens(self) -> None:
        """Wait until the worker hears commands: on Redis, somewhat later than it is ready."""
        ping, seconds = self.client.control.ping, count(1)
        wait_for(lambda: ping([self.hostname], timeout=next(seconds)), ANSWERS_WITHIN, self.log)

    def children(self) -> list[psutil.Process]:
        return list(psutil.Process(self.pid).children(recursive=True))

    def cpu_seconds(self) -> float:
        """Processor time of all its processes that live, user and system."""
        main = psutil.Process(self.pid)
        times = [each.cpu_times() for each in (main, *main.children(recursive=True))]
        return float(sum(each.user + each.system for each in times))


def _module(app: str, folder: Path, number: int) -> str:
    """The name of the app's module, written to a file first if it is source."""
    if "\n" not in app:
        return app
    name = f"test_app_{number}"
    (folder / f"{name}.py").write_text(app)
    return name


StartWorker = Callable[..., WorkerProcess]


@contextmanager
def starting_workers(folder: Path) -> Iterator[StartWorker]:
    """What starts workers that work in `folder`, until the context ends them."""
    with ExitStack() as stack:
        yield partial(_start, stack, folder)


def _start(
    stack: ExitStack, folder: Path, broker: str | Space, wait: bool = True, **options: Any
) -> WorkerProcess:
    url = broker.url if isinstance(broker, Space) else broker
    worker = WorkerProcess(url, folder, **options)
    stack.callback(worker.end)
    return worker.wait_ready() if wait else worker
