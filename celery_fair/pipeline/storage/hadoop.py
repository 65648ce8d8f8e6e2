"""A folder elsewhere: of any file system that Spark reads; what it promises, the package says.

A lease is a file, ``.held-<mark>``, that names the folders which somebody holds. It is written
again and again while the owner lives, a third of its time apart. By when it was written last, and
by when a file is written now, the store's own clock says how old it is: clocks of several machines
are not compared.
"""

import json
import secrets
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from threading import Event, Thread, current_thread
from typing import TYPE_CHECKING

from celery_fair.clock import elapsed
from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.storage.address import scheme_of
from celery_fair.pipeline.storage.java_files import ONLY_IF_NONE, JavaFiles
from celery_fair.pipeline.storage.store import HELD, SCRATCH, Held, Hold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SECONDS", "HadoopStore"]

SECONDS = 60.0
"""How long a lease is good for if it is not renewed; others give it twice as long."""

_PATIENCE = 5.0
"""Seconds for a renewal that is under way: a store that is down is tried for minutes by Hadoop."""

_RENAMES = ("hdfs", "webhdfs", "swebhdfs", "abfs", "abfss")

_RENAME = "a draft is renamed"
_PUT = "a PUT on condition that there is none"
_CREATE = "a file that is made only if there is none, and seen when it is whole"
"""By what a file of a name is made once, whoever tries at the same time."""


class HadoopStore(JavaFiles):
    """See `celery_fair.pipeline.storage.store.Store`.

    Arguments:
        root: a URI.
        one_writer: whether nobody else writes there.
        seconds: how long what is held stays held if its owner is gone.
    """

    def __init__(
        self, spark: "SparkSession", root: str, one_writer: bool = False, seconds: float = SECONDS
    ) -> None:
        super().__init__(spark, root)
        self._one_writer, self._seconds = one_writer, seconds
        self.in_doubt = False

    def put(self, name: str, content: bytes, new: bool = False) -> bool:
        if not new:
            self.write(name, content)
            return True
        self.in_doubt = True  # if this is broken off, it may be done yet
        try:
            made = self._makes(name, content)
        except (OSError, PipelineError):
            # An answer may have been lost, or be one that nobody knows, after the file was made.
            if not self._is(name, content):
                raise
            made = True
        # Whoever has not heard of its success tries again, and is told that there is one: its own.
        made = made or self._is(name, content)
        self.in_doubt = False
        return made

    def _makes(self, name: str, content: bytes) -> bool:
        """Make a file, whole; return whether there was none."""
        if self._by in (_PUT, _CREATE):
            try:
                self.create(name, content, conditional=self._by == _PUT)
            except FileExistsError:
                return False
            return True
        if self._by is None and self.names(name):
            return False
        draft = f"{SCRATCH}draft-000000-{secrets.token_hex(3)}"
        self.write(draft, content)
        made = self.rename(draft, name)
        if not made:
            self.remove(draft)
        return made

    def _is(self, name: str, content: bytes) -> bool:
        with suppress(OSError, PipelineError):
            return self.open(self.address(name)) == content
        return False

    @cached_property
    def _by(self) -> str | None:
        """By what a file is made once; None if that is not promised."""
        scheme = self.scheme()
        if scheme in _RENAMES:
            return _RENAME
        if self.can(ONLY_IF_NONE):
            return _PUT
        return _CREATE if scheme == "gs" else None

    def settle(self, names: Iterable[str]) -> None:
        """What has been closed is the store's, and as safe as it makes it."""

    def check(self) -> None:
        if self._one_writer:
            return
        scheme = scheme_of(self.root)
        hint = (
            "; if no other command writes there meanwhile, say so with --one-writer, and look that"
            " nobody does"
        )
        if self._by is None:
            newer = (
                " (S3A does from Hadoop 3.4.2 on, with fs.s3a.create.conditional.enabled)"
                if scheme == "s3a"
                else ""
            )
            raise PipelineError(
                f"{self.root} does not promise that of two who publish a version at once only one"
                f" does{newer}{hint}"
            )
        # Twice, for who publishes meanwhile may take the file for what was left behind.
        if not (self._makes_once() or self._makes_once()):
            raise PipelineError(
                f"{self.root} has let a file be replaced that was to be made only once"
                f" ({self._by}): its store does not do what {scheme} does{hint}"
            )

    def _makes_once(self) -> bool:
        """Try what publishing rests on: who speaks like another store need not do what it does."""
        place = f"{SCRATCH}tried-000000-{secrets.token_hex(3)}"
        name = f"{place}/once"
        try:
            with self.asked("made", place):
                self._files.mkdirs(self.path(place))
            return self._makes(name, b"1") and not self._makes(name, b"2")
        finally:
            self.remove(place)

    def hold(self, mark: str, folders: Iterable[str]) -> Hold:
        beats = _Beats(self, f"{HELD}{mark}", json.dumps(sorted(folders)).encode(), self._seconds)
        return Hold(beats.end, beats.check)

    def held(self, now: float) -> Held | None:
        found = Held(set(), set())
        for name in self.names(f"{HELD}*"):
            try:
                if now - self.changed(name) > 2 * self._seconds:
                    self.remove(name)
                    continue
                found.marks.add(name.removeprefix(HELD))
                found.folders.update(json.loads(self.open(self.address(name))))
            except FileNotFoundError:  # released just now
                continue
            except ValueError:  # written just now
                return None
        return found


class _Beats(Thread):
    """Renews a lease until it is told to stop, or is too late."""

    def __init__(self, files: JavaFiles, name: str, text: bytes, seconds: float) -> None:
        super().__init__(name=f"celery-fair {name}", daemon=True)
        self._files, self.file, self._text, self._seconds = files, name, text, seconds
        self._over = Event()
        self._last = elapsed()
        files.write(name, text)
        self.start()

    def run(self) -> None:
        while not self._over.wait(self._seconds / 3):
            began = elapsed()
            if self._is_late():  # others may have taken it for left: it does not come back
                return
            with suppress(OSError, PipelineError):  # once more in a while
                self._files.write(self.file, self._text)
                self._last = began

    def _is_late(self) -> bool:
        return elapsed() - self._last > self._seconds

    def check(self) -> None:
        """See to it that it holds.

        Raises:
            PipelineError: it was not renewed in time.
        """
        if self._is_late():
            raise PipelineError(
                f"{self._files.root} could not be written to, or this process was held up, for more"
                f" than {self._seconds:g} seconds: others may have removed what it wrote; nothing"
                " was published: run it again"
            )

    def end(self) -> None:
        self._over.set()
        if self.is_alive() and current_thread() is not self:  # else it may write once more
            self.join(_PATIENCE)
        self._files.remove(self.file)  # or it runs out
