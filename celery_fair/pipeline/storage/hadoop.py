"""A folder elsewhere: of any file system that Spark reads; what it promises, the package says."""

import secrets
from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress
from enum import Enum
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING

from celery_fair.clock import elapsed
from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.storage import lease
from celery_fair.pipeline.storage.address import scheme_of
from celery_fair.pipeline.storage.java_files import JavaFiles
from celery_fair.pipeline.storage.local import POINTER, SCRATCH
from celery_fair.pipeline.storage.store import Held, Hold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Exclusive", "HadoopStore"]

_KEPT = 2
"""Pointers that a reader may have just seen."""

_NEVER = ("ftp", "http", "https")
_RENAMES = ("hdfs", "webhdfs", "swebhdfs", "abfs", "abfss")


class Exclusive(Enum):
    """By what a file of a name is made once, whoever tries at the same time."""

    RENAME = "a draft is renamed"
    PUT = "a PUT on condition that there is none"
    CREATE = "a file that is made only if there is none, and seen when it is whole"
    NO = "nothing"


class HadoopStore:
    """See `celery_fair.pipeline.storage.store.Store`.

    Arguments:
        root: a URI.
        one_writer: whether nobody else writes there.
        seconds: how long what it holds stays held if this process is gone.
    """

    def __init__(
        self,
        spark: "SparkSession",
        root: str,
        one_writer: bool = False,
        seconds: float = lease.SECONDS,
    ) -> None:
        self.root: str = root
        if scheme_of(root) in _NEVER:
            raise PipelineError(
                f"{root} cannot be read: Hadoop's files of {scheme_of(root)} can only be read from"
                " their beginning, and Spark reads them in parts: copy them to this machine, or to"
                " hdfs, s3a, gs or abfs"
            )
        self._files = JavaFiles(spark, root)
        self._one_writer = one_writer
        self._seconds = seconds
        self._looked = elapsed()
        self.in_doubt = False

    def address(self, name: str = "") -> str:
        return f"{self.root.rstrip('/')}/{name}" if name else self.root

    def files(self, pattern: str) -> Iterator[str]:
        for address in self._files.below():
            if fnmatchcase(address.rpartition("/")[2], pattern):
                yield address

    def has_any(self, patterns: Iterable[str]) -> bool:
        wanted = list(patterns)
        return any(
            fnmatchcase(name, pattern) for name in self._files.first_below() for pattern in wanted
        )

    def read(self, address: str) -> bytes:
        return self._files.read(address)

    def write(self, name: str, content: bytes) -> None:
        self._files.write(name, content)

    def is_folder(self, name: str = "") -> bool:
        return self._files.is_folder(name)

    def make(self, name: str = "") -> None:
        self._files.make(name)

    def move(self, name: str, target: str) -> None:
        self.make(target.rpartition("/")[0])
        if not self._files.rename(name, target):
            raise OSError(f"{self.address(name)} could not be renamed to {target}")

    def remove(self, name: str) -> None:
        with suppress(OSError, PipelineError):
            self._files.remove(name)

    def size(self, name: str) -> int:
        return self._files.size(name)

    def written(self) -> list[str]:
        return [*self._files.fitting("*/run=*"), *self._files.fitting(f"{SCRATCH}*")]

    def settle(self, names: Iterable[str]) -> None:
        """What has been closed is the store's, and as safe as it makes it."""

    def alone(self) -> nullcontext[None]:
        """There are no locks: see `point`."""
        return nullcontext()

    def present(self) -> str | None:
        """The newest pointer; else that of a warehouse that was copied from a machine."""
        self._looked = elapsed()
        missed = ""
        while pointers := self._pointers():
            try:
                return self.read(self.address(pointers[-1])).decode()
            except FileNotFoundError as exc:  # removed just now: there are newer ones
                if missed == pointers[-1]:
                    raise PipelineError(f"{exc}, though it is listed") from exc
                missed = pointers[-1]
        with suppress(FileNotFoundError):
            return self.read(self.address(POINTER)).decode()
        return None

    def _pointers(self) -> list[str]:
        found = self._files.fitting("current-*.json")
        return sorted((name for name in found if _version(name) >= 0), key=_version)

    def point(self, version: int, text: str) -> bool:
        self.in_doubt = True  # if this is broken off, it may be done yet
        done = self._points(version, text)
        self.in_doubt = False
        return done

    def _points(self, version: int, text: str) -> bool:
        name = f"current-{version:06d}.json"
        # Whoever has not heard of its success tries again, and is told that there is one: its own.
        if not (self._is_created(name, version, text) or self._is(name, text)):
            return False
        pointers = self._pointers()
        # The pointer of the version may have been there, and been removed, since it was looked for.
        if elapsed() - self._looked > self._seconds and pointers[-1] != name:
            self._files.remove(name)
            return False
        self._forget(pointers)
        return True

    def _is_created(self, name: str, version: int, text: str) -> bool:
        try:
            return self._create(name, version, text.encode())
        except (OSError, PipelineError):
            # An answer may have been lost, or be one that nobody knows, after the file was made.
            with suppress(OSError, PipelineError):
                if self._is(name, text):
                    return True
            raise

    def _create(self, name: str, version: int, content: bytes) -> bool:
        """Make a file, whole; return whether there was none."""
        if self._exclusive in {Exclusive.PUT, Exclusive.CREATE}:
            try:
                self._files.create(name, content, conditional=self._exclusive is Exclusive.PUT)
            except FileExistsError:
                return False
            return True
        if self._exclusive is Exclusive.NO and self._files.fitting(name):
            return False
        draft = f"{SCRATCH}pointer-{version:06d}-{secrets.token_hex(3)}"
        self._files.write(draft, content)
        made = self._files.rename(draft, name)
        if not made:
            self._files.remove(draft)
        return made

    def _is(self, name: str, text: str) -> bool:
        try:
            return self.read(self.address(name)).decode() == text
        except FileNotFoundError:
            return False

    def _forget(self, pointers: list[str]) -> None:
        """Remove pointers that nobody can just be reading, or about to publish."""
        past = pointers[:-_KEPT]
        latest = self._files.changed(pointers[-1]) if past else 0
        for name in past:
            with suppress(FileNotFoundError):  # another run has removed it
                if latest - self._files.changed(name) <= 2000 * self._seconds:
                    return
                self._files.remove(name)

    @cached_property
    def _exclusive(self) -> Exclusive:
        scheme = self._files.scheme
        if scheme in _RENAMES:
            return Exclusive.RENAME
        if self._files.creates_only_if_none():
            return Exclusive.PUT
        return Exclusive.CREATE if scheme == "gs" else Exclusive.NO

    def hold(self, mark: str, folders: Iterable[str]) -> Hold:
        return lease.Lease(self._files, mark, folders, self._seconds)

    def check(self) -> None:
        if self._one_writer:
            return
        scheme = scheme_of(self.root)
        hint = (
            "; if no other command writes there meanwhile, say so with --one-writer, and look that"
            " nobody does"
        )
        if self._exclusive is Exclusive.NO:
            newer = (
                " (S3A does from Hadoop 3.4.2 on, with fs.s3a.create.conditional.enabled)"
                if scheme == "s3a"
                else ""
            )
            raise PipelineError(
                f"{self.root} does not promise that of two who publish a version at once only one"
                f" does{newer}{hint}"
            )
        if not self._keeps_its_promise():
            raise PipelineError(
                f"{self.root} has let a file be replaced that was to be made only once"
                f" ({self._exclusive.value}): its store does not do what {scheme} does{hint}"
            )

    def _keeps_its_promise(self) -> bool:
        """Try what publishing rests on: a store that speaks like another need not do what it does.

        Twice, for who publishes meanwhile may take this for what was left behind.
        """
        return self._makes_once() or self._makes_once()

    def _makes_once(self) -> bool:
        place = f"{SCRATCH}tried-000000-{secrets.token_hex(3)}"
        name = f"{place}/once"
        self.make(place)
        try:
            return self._create(name, 0, b"1") and not self._create(name, 0, b"2")
        finally:
            self.remove(place)

    def held(self) -> Held:
        return lease.leased(self._files)


def _version(pointer: str) -> int:
    digits = pointer.removeprefix("current-").removesuffix(".json")
    return int(digits) if digits.isdigit() else -1
