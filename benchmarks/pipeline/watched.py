"""A program that is run to its end while memory is watched: of all that this process has started.

So that of a cluster counts, which was started before.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event, Thread
from time import monotonic
from typing import Any, NamedTuple

import psutil

__all__ = ["Ran", "python", "run"]

EVERY = 0.1
_Seconds = dict[tuple[int, float], float]
ROOT = Path(__file__).resolve().parents[2]


class Ran(NamedTuple):
    """What came of it.

    Attributes:
        said: the last line that it printed, if that is JSON.
        seconds: from its start to its end.
        memory: bytes that the processes had at once, at the most; what they share counts for each.
        cpu: seconds that they computed, all together.
        own: seconds of these that the program and what it started did: of Spark, the driver.
    """

    said: dict[str, Any]
    seconds: float
    memory: int
    cpu: float
    own: float


def run(words: Sequence[str], limit: float, env: Mapping[str, str] | None = None) -> Ran:
    """Run `words`, at most for `limit` seconds.

    Raises:
        RuntimeError: it failed, or took longer.
    """
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        began, ended = monotonic(), Event()
        process = subprocess.Popen(words, stdout=out, stderr=err, cwd=ROOT, env=env)
        watch = _Watch(process.pid, ended)
        watch.start()
        try:
            status: int | str = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = f"ended after {limit:g} s"
        finally:
            ended.set()
            watch.join()
            _end(process)
        seconds = monotonic() - began
        if status:
            err.seek(0)
            raise RuntimeError(f"{' '.join(words)}: {status}\n{err.read()[-3000:]}")
        out.seek(0)
        return Ran(_json(out.read()), seconds, watch.memory, watch.cpu, watch.own)


class _Watch(Thread):
    """Looks at all processes that this one has started, until it is told that they have ended."""

    def __init__(self, pid: int, ended: Event) -> None:
        super().__init__()
        self._pid = pid
        self._ended = ended
        self._before = _computed()
        self._computed = dict(self._before)
        self._own: _Seconds = {}
        self.memory = 0

    def run(self) -> None:
        while not self._ended.wait(EVERY):
            self.memory = max(self.memory, _resident())
            self._computed |= _computed()
            self._own |= _computed(self._pid)

    @property
    def cpu(self) -> float:
        """Seconds of all, up to the last look at each."""
        since = (seconds - self._before.get(key, 0.0) for key, seconds in self._computed.items())
        return sum(since)

    @property
    def own(self) -> float:
        """Seconds of the program and what it started."""
        return sum(self._own.values())


def _resident() -> int:
    total, sizes = 0, dict[int, int]()
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            memory, parent = process.memory_info(), process.ppid()
            sizes[process.pid] = memory.vms
            # Until it is another program, what Java has forked has the very memory of its parent.
            if memory.vms != sizes.get(parent):
                total += memory.rss
    return total


def _computed(pid: int | None = None) -> _Seconds:
    """What each has computed by now, by its number and birth: of all that this process has started,
    or of another and all that it has started."""
    found: _Seconds = {}
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        every = [*([] if pid is None else [root]), *root.children(recursive=True)]
        for process in every:
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                found[process.pid, process.create_time()] = times.user + times.system
    return found


def _end(process: "subprocess.Popen[Any]") -> None:
    """See to it that nothing of the program is left."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.kill()
    process.kill()
    process.wait()


def _json(printed: str) -> dict[str, Any]:
    lines = printed.strip().splitlines()
    with suppress(ValueError, IndexError):
        said = json.loads(lines[-1])
        return said if isinstance(said, dict) else {}
    return {}


def python(*words: object) -> list[str]:
    """Return the words that run a module of this Python."""
    return [sys.executable, "-m", *map(str, words)]
