"""What the pipeline asks of a folder of logs, and of a warehouse."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

__all__ = ["Held", "Hold", "Store"]


class Held(NamedTuple):
    """What may not be removed.

    Attributes:
        folders: those of versions that are being read, relative to the warehouse.
        marks: those of runs that are under way; all that they write ends with theirs.
    """

    folders: set[str]
    marks: set[str]


class Hold(Protocol):
    """Holds folders until it is released, or its owner is gone."""

    def check(self) -> None:
        """See to it that it still holds.

        Raises:
            PipelineError: it does not.
        """

    def release(self) -> None:
        """Hold nothing any more."""


class Store(Protocol):
    """A folder. Names are relative to it, with slashes; the empty one is its own.

    Raises:
        OSError: whatever cannot be done with a file.
        PipelineError: the store cannot be reached, or asked for this.
    """

    in_doubt: bool
    """Whether a pointer may have been published, or be yet, though `point` has not said so."""

    @property
    def root(self) -> Path | str:
        """The folder, as it is told to a reader."""

    def address(self, name: str = "") -> str:
        """Return how Spark, on every machine, names something; it is no pattern."""

    def files(self, pattern: str) -> Iterator[str]:
        """Yield the addresses of the files below, at any depth, whose names fit a pattern."""

    def has_any(self, patterns: Iterable[str]) -> bool:
        """Whether there is a file below whose name fits one of these."""

    def read(self, address: str) -> bytes:
        """Return what is in the file of an address."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file that nobody else reads or writes."""

    def is_folder(self, name: str = "") -> bool:
        """Whether there is a folder of the name."""

    def make(self, name: str = "") -> None:
        """Make a folder, and those above it, unless it is there."""

    def move(self, name: str, target: str) -> None:
        """Give a folder, that nobody else uses, another name."""

    def remove(self, name: str) -> None:
        """Remove a folder and all in it, as far as that can be done."""

    def size(self, name: str) -> int:
        """Return how many bytes a folder of a table has."""

    def written(self) -> list[str]:
        """Return the folders of runs: ``<table>/run=…``, and those that are for a while."""

    def check(self) -> None:
        """See to it that a warehouse can be written here.

        Raises:
            PipelineError: it cannot, or not by who does not say that there is no other writer.
        """

    def alone(self) -> AbstractContextManager[None]:
        """Nobody else publishes or holds meanwhile, where that is to be had; see `point`."""

    def settle(self, names: Iterable[str]) -> None:
        """See to it that folders of a table outlast a power loss, as far as the store lets us."""

    def present(self) -> str | None:
        """Return the pointer of the present version; None if nothing was published."""

    def point(self, version: int, text: str) -> bool:
        """Publish the pointer of a version; False if another has published that version."""

    def hold(self, mark: str, folders: Iterable[str]) -> Hold:
        """Hold folders, and all whose names end with the mark."""

    def held(self) -> Held:
        """Return what is held, and remove what those left who are gone."""
