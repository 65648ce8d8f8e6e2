"""Child processes that cannot outlive the test run.

Each child leads its own process group, which is announced to the reaper (see
`reaper.py`) and killed as a whole by `Process.end()`.

A run that is started in the background or under nohup ignores signals, and what
a process ignores, its children ignore. So a run catches these instead, and does
nothing about them: what is caught, a child has the default handling of.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Any

import psutil

from tests import reaper

ROOT = Path(__file__).resolve().parent.parent

_PREFIX = "celery-fair-"
PLACE = "CELERY_FAIR_TEST_PLACE"
"""The variable that names the folder for runs' folders: the paths of sockets must be short."""

MEMORY = Path("/dev/shm")
_ROOM = 4 << 30
"""Bytes; a run on two cores has up to one at a time there."""

ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


@contextmanager
def children_hear_signals() -> Iterator[None]:
    """Let no child started in this context inherit that signals to end are ignored."""
    ignored = [number for number in ENDING if signal.getsignal(number) == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)


_removed: list[Path] = []


def removed() -> list[Path]:
    """The folders of earlier runs that were there, and are no more."""
    return _removed


def _clean() -> None:
    """Remove the folders of runs that were ended together with their reapers."""
    for place in {Path(os.environ.get(PLACE, tempfile.gettempdir())), MEMORY}:
        for path in place.glob(f"{_PREFIX}*"):
            owner = path.name.removeprefix(_PREFIX).partition("-")[0]
            if owner.isdecimal() and not psutil.pid_exists(int(owner)):
                shutil.rmtree(path, ignore_errors=True)
                _removed.append(path)


def _roomy() -> str:
    """The temporary folder; in memory, unless one is named, if there is room for it and for itself.

    Brokers and logs write hundreds of megabytes, and wait for a disk: a run costs a tenth less.
    """
    if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK):
        free = min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available // 2)
        if free > _ROOM and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
            return str(MEMORY)
    return tempfile.gettempdir()


@cache
def _session() -> tuple[Path, IO[str]]:
    """The run's folder, and the pipe to the reaper that will remove it."""
    _clean()
    place = os.environ.setdefault(PLACE, _roomy())
    folder = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place)
    child = subprocess.Popen(
        [sys.executable, reaper.__file__, folder],
        stdin=subprocess.PIPE,
        start_new_session=True,
        text=True,
        bufsize=1,
    )
    assert child.stdin is not None
    # A forked child must not reap what its parent still uses.
    atexit.register(_reap, child, os.getpid())
    return Path(folder), child.stdin


def _reap(child: subprocess.Popen[str], owner: int) -> None:
    if os.getpid() == owner:
        child.communicate()


def folder(prefix: str) -> Path:
    """A new folder that is gone when the run is over.

    Its path is short: that of a Unix socket is limited to about 100 bytes.
    """
    return Path(tempfile.mkdtemp(prefix=f"{prefix}-", dir=_session()[0]))


def _tell_reaper(change: str, group: int) -> None:
    _session()[1].write(f"{change}{group}\n")


class Process:
    """One child: its pid, its log file, its signals and its certain end."""

    def __init__(
        self,
        args: Sequence[str | Path],
        log: Path,
        env: Mapping[str, str],
        **options: Any,
    ) -> None:
        self.args = [str(arg) for arg in args]
        self.log_path = log
        with log.open("ab") as output:
            self._popen = self._start(env, output, **options)
        _tell_reaper("+", self.pid)

    def _start(self, env: Mapping[str, str], output: IO[bytes], **options: Any) -> Any:
        """Start a new session; returns what is as `subprocess.Popen`."""
        return subprocess.Popen(
            self.args,
            env=dict(env),
            stdout=options.pop("stdout", output),
            stderr=output,
            start_new_session=True,
            **options,
        )

    @property
    def pid(self) -> int:
        return int(self._popen.pid)

    @property
    def stdin(self) -> IO[bytes]:
        pipe: IO[bytes] | None = self._popen.stdin
        assert pipe is not None
        return pipe

    @property
    def stdout(self) -> IO[bytes]:
        pipe: IO[bytes] | None = self._popen.stdout
        assert pipe is not None
        return pipe

    @property
    def running(self) -> bool:
        return self._popen.poll() is None

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def send(self, number: int) -> None:
        """Signal the process itself, not its children."""
        self._popen.send_signal(number)

    def wait(self, timeout: float = 30) -> int:
        """Wait for the process to end; returns its exit code."""
        return int(self._popen.wait(timeout))

    def kill(self) -> None:
        """SIGKILL for the process alone: its children see what they see."""
        self.send(signal.SIGKILL)
        self.wait()

    def end(self) -> None:
        """Kill the process and its whole group, if anything is left of it."""
        reaper.kill_group(self.pid)
        self.wait()
        _tell_reaper("-", self.pid)
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe:
                pipe.close()
