"""Which folders of a warehouse elsewhere somebody reads or writes: nobody removes those.

``.held-<mark>`` says which folders these are, who the owner is and for how many seconds it is good;
it is written once. ``.held-<mark>.beat`` is written again and again while the owner lives, a third
of that time apart. By when they were written last, and by when a file is written now, the store's
own clock says how old they are: clocks of several machines are not compared.
"""

import json
import os
import socket
import time
import weakref
from collections.abc import Iterable
from contextlib import suppress
from threading import Event, Thread, current_thread

from celery_fair.clock import elapsed
from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.storage.java_files import JavaFiles
from celery_fair.pipeline.storage.store import Held

__all__ = ["SECONDS", "Lease", "leased"]

SECONDS = 60.0
"""How long a lease is good for if it is not renewed; others give it twice as long."""

_PATIENCE = 5.0
"""Seconds for a renewal that is under way: a store that is down is tried for minutes by Hadoop."""

_NAME = ".held-"
_BEAT = ".beat"
_CLOCK = ".clock-"

_OLD = 86400.0
"""Seconds after which what nobody holds is removed: a clock, a beat without its lease."""


class _Beats(Thread):
    """Renews a lease until it is told to stop, or is too late."""

    def __init__(self, files: JavaFiles, mark: str, seconds: float) -> None:
        super().__init__(name=f"celery-fair lease {mark}", daemon=True)
        self._files = files
        self.name_of_file = f"{_NAME}{mark}"
        self._seconds = seconds
        self._over = Event()
        self._last = elapsed()

    @property
    def is_late(self) -> bool:
        return elapsed() - self._last > self._seconds

    def run(self) -> None:
        while not self._over.wait(self._seconds / 3):
            began = elapsed()
            if self.is_late:  # others may have taken it for left: it does not come back
                return
            with suppress(OSError, PipelineError):  # once more in a while
                self._files.write(f"{self.name_of_file}{_BEAT}", b"")
                self._last = began

    def end(self) -> None:
        self._over.set()
        if self.is_alive() and current_thread() is not self:  # else it may write once more
            self.join(_PATIENCE)
            if self.is_alive():  # in a store that does not answer
                return
        for name in (self.name_of_file, f"{self.name_of_file}{_BEAT}"):
            with suppress(OSError, PipelineError):  # it runs out
                self._files.remove(name)


class Lease:
    """Holds folders; see `celery_fair.pipeline.storage.store.Hold`.

    Arguments:
        files: the warehouse's.
        mark: whose it is; nobody else has it.
        seconds: how long it is good for if it is not renewed.
    """

    def __init__(self, files: JavaFiles, mark: str, folders: Iterable[str], seconds: float) -> None:
        self._root = files.root
        self._seconds = seconds
        beats = _Beats(files, mark, seconds)
        owner = f"{os.getpid()}@{socket.gethostname()}"
        said = {"owner": owner, "seconds": seconds, "folders": sorted(folders)}
        files.write(beats.name_of_file, json.dumps(said).encode())
        self._beats = beats
        self._end = weakref.finalize(self, beats.end)
        beats.start()

    def check(self) -> None:
        """See to it that it holds.

        Raises:
            PipelineError: it was not renewed in time.
        """
        if self._beats.is_late:
            raise PipelineError(
                f"{self._root} could not be written to, or this process was held up, for more than"
                f" {self._seconds:g} seconds: others may have removed what it wrote; nothing was"
                " published: run it again"
            )

    def release(self) -> None:
        self._end()


def leased(files: JavaFiles) -> Held:
    """Return what is held, and remove what those left who are gone."""
    found = Held(set(), set())
    names = set(files.fitting(f"{{{_NAME},{_CLOCK}}}*"))
    if not names:
        return found
    clock = f"{_CLOCK}{os.getpid()}-{time.time_ns()}"
    files.write(clock, b"")
    present = files.changed(clock)
    files.remove(clock)
    leases = {name for name in names if name.startswith(_NAME) and not name.endswith(_BEAT)}
    for name in names - leases - {f"{lease}{_BEAT}" for lease in leases}:
        with suppress(OSError, PipelineError):  # another run has removed it, or only its owner may
            if present - files.changed(name) > 1000 * _OLD:
                files.remove(name)
    for name in sorted(leases):
        beat = f"{name}{_BEAT}" if f"{name}{_BEAT}" in names else name
        try:
            said = json.loads(files.read(f"{files.root.rstrip('/')}/{name}"))
            age = (present - files.changed(beat)) / 1000
            if age > 2 * said["seconds"]:
                with suppress(OSError, PipelineError):  # only its owner may
                    for left in {name, beat}:
                        files.remove(left)
                continue
            found.folders.update(said["folders"])
        except (FileNotFoundError, ValueError):  # released just now, or made just now
            pass
        found.marks.add(name.removeprefix(_NAME))
    return found
