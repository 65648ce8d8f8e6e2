"""`python -m celery ...`, or another module, in processes that find their modules imported.

Three quarters of a worker's start are imports, the same each time. Here one
child of the test process, the nursery, imports them and then forks for each
worker, which runs Celery's `__main__` from its first line, in a session, a
folder and an environment of its own. Not for pools that patch the standard
library, which they must do before any import.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import platform
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, NoReturn

from tests.processes import ROOT, Process
from tests.processes import folder as new_folder

_LONGEST = 1 << 17


# In the test process ---------------------------------------------------------


class PreloadedCelery(Process):
    """Celery with these arguments; or another module, in a class of its own."""

    module = "celery"

    def _nursery(self) -> Nursery:
        return _celerys()

    def _start(
        self,
        env: Mapping[str, str],
        output: IO[bytes],
        cwd: Path | None = None,
        pass_fds: Sequence[int] = (),
        stdout: IO[bytes] | None = None,
    ) -> _Grandchild:
        log = output.fileno()
        out = log if stdout is None else stdout.fileno()
        order = {
            "module": self.module,
            "arguments": self.args,
            "environment": dict(env),
            "folder": str(cwd or Path.cwd()),
            "descriptors": [1, 2, *pass_fds],
        }
        nursery = self._nursery()
        return _Grandchild(nursery, int(nursery.ask(order, [out, log, *pass_fds])))


def run_celery(
    arguments: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """A command of Celery's, to its end."""
    with TemporaryDirectory() as place:
        out, err = Path(place) / "out", Path(place) / "err"
        with out.open("wb") as stdout:
            process = PreloadedCelery(arguments, err, env, cwd=cwd, stdout=stdout)
        try:
            code = process.wait(timeout)
        finally:
            process.end()
        return subprocess.CompletedProcess(process.args, code, out.read_text(), err.read_text())


class _Grandchild:
    """What of `subprocess.Popen` a `Process` needs; its parent tells its exit code."""

    stdin = stdout = None

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self.pid = pid
        self._nursery = nursery
        self._end = os.pidfd_open(pid)
        self._code: int | None = None

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float) -> int:
        if self._code is None:
            ended, _, _ = select.select([self._end], [], [], timeout)
            if not ended:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            self._code = int(self._nursery.ask({"ended": self.pid}))
            os.close(self._end)
        return self._code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self._end, number)


class Nursery:
    """The process that forks; `modules` are what it imports before, else Celery's."""

    def __init__(self, *modules: str, folder: Path = ROOT) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = Process(
                [sys.executable, "-m", "tests.preloaded", str(theirs.fileno()), *modules],
                new_folder("nursery") / "log",
                os.environ | {"PYTHONPATH": str(folder)},
                cwd=folder,
                pass_fds=[theirs.fileno()],
            )
        self._owner = os.getpid()
        atexit.register(self.close)

    def ask(self, order: Mapping[str, Any], descriptors: Sequence[int] = ()) -> str:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(order).encode()], descriptors)
            answer = self._socket.recv(_LONGEST)
        assert answer, f"the nursery is gone:\n{self._process.log()}"
        return answer.decode()

    def close(self) -> None:
        if os.getpid() == self._owner:
            self._socket.close()
            self._process.end()


_celerys = cache(Nursery)


@contextmanager
def no_nursery_after() -> Iterator[None]:
    """End it with this context; who needs one later gets another."""
    try:
        yield
    finally:
        if _celerys.cache_info().currsize:
            _celerys().close()
            _celerys.cache_clear()


# In the nursery ----------------------------------------------------------------


def serve(orders: socket.socket) -> dict[str, Any]:
    """Answer orders until they end; returns, in a new process, the worker's."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(orders, _LONGEST, 16)
        if not message:
            sys.exit()
        order = json.loads(message)
        if "ended" in order:
            _, status = os.waitpid(order["ended"], 0)
            orders.send(str(os.waitstatus_to_exitcode(status)).encode())
            continue
        started, tell = os.pipe()
        pid = os.fork()
        if not pid:
            os.setsid()
            os.close(tell)
            os.close(started)
            orders.close()
            _place(descriptors, order["descriptors"])
            return order
        os.close(tell)
        os.read(started, 1)  # leads its group
        os.close(started)
        for descriptor in descriptors:
            os.close(descriptor)
        orders.send(str(pid).encode())


def _place(descriptors: Sequence[int], numbers: Sequence[int]) -> None:
    """Give each descriptor the number that it has in the test process."""
    free = max((*descriptors, *numbers)) + 1
    aside = [os.dup2(descriptor, free + place) for place, descriptor in enumerate(descriptors)]
    for descriptor in descriptors:
        os.close(descriptor)
    for descriptor, number in zip(aside, numbers, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)


def become(order: Mapping[str, Any]) -> None:
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    path = order["environment"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [order["folder"], *path]
    sys.argv = [order["module"], *order["arguments"]]
    try:
        runpy.run_module(order["module"], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, str):
            raise
        _exit(end.code or 0)


def _exit(code: int) -> NoReturn:
    """End as Python does, but leave it to the system to take a thousand modules apart."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__:
        if stream is not None:
            stream.flush()
    os._exit(code)


CELERYS = """
    celery.app.amqp celery.app.control celery.app.events celery.app.log celery.app.routes
    celery.apps.worker celery.bin.celery celery.concurrency.prefork celery.concurrency.solo
    celery.concurrency.thread celery.fixups.django celery.loaders.app celery.utils.debug
    celery.worker.components celery.worker.consumer.delayed_delivery
    kombu.matcher kombu.pidbox kombu.transport.pyamqp kombu.transport.redis
    celery_fair.hidden celery_fair.worker.fast_path.path celery_fair.worker.observe.banner
    celery_fair.worker.session
"""
"""With the commands come those of Celery's extensions: Flower's, and ours. Not what does something
as it is imported: our step registers commands, and the autoscaler reads its environment."""


if __name__ == "__main__":
    platform.platform()  # remembers it; else each would have `uname` say it
    metadata.entry_points = metadata.entry_points().select  # nor look at all packages
    for name in sys.argv[2:] or CELERYS.split():
        import_module(name)
    gc.freeze()  # what all have need not be looked through by each
    become(serve(socket.socket(fileno=int(sys.argv[1]))))
