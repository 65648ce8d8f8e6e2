"""What the pipeline asks of a folder of logs, and of a warehouse."""

import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

__all__ = ["HELD", "SCRATCH", "Held", "Hold", "Store"]

HELD = ".held-"
"""How the names of files begin by which somebody holds folders."""

SCRATCH = ".scratch-"
"""How the names begin of what is for a while."""


class Held(NamedTuple):
    """What may not be removed.

    Attributes:
        folders: those of versions that are being read, relative to the warehouse.
        marks: those of runs that are under way; all that they write ends with theirs.
    """

    folders: set[str]
    marks: set[str]


def _nothing() -> None:
    pass


class Hold:
    """Holds folders until it is released, or its owner is gone.

    Arguments:
        end: ends it.
        check: raises a `PipelineError` if it does not hold any more.
    """

    def __init__(
        self, end: Callable[[], None] = _nothing, check: Callable[[], None] = _nothing
    ) -> None:
        self.release, self.check = weakref.finalize(self, end), check


class Store(Protocol):
    """A folder. Names are relative to it, with slashes; the empty one is its own.

    Raises:
        OSError: whatever cannot be done with a file.
        PipelineError: the store cannot be reached, or asked for this.
    """

    in_doubt: bool
    """Whether a new file may be there, or be yet, though `put` has not said so."""

    @property
    def root(self) -> Path | str:
        """The folder, as it is told to a reader."""

    def address(self, name: str = "") -> str:
        """Return how Spark, on every machine, names something; it is no pattern."""

    def below(self) -> Iterator[str]:
        """Yield the addresses of all files below, at any depth."""

    def names(self, pattern: str) -> list[str]:
        """Return the names that fit a pattern."""

    def open(self, address: str) -> bytes:
        """Return what is in the file of an address."""

    def put(self, name: str, content: bytes, new: bool = False) -> bool:
        """Write a file, and the folders above it.

        Arguments:
            new: only if there is none, and others see it whole or not at all; else it is nobody
                else's.

        Returns:
            Whether it is written.
        """

    def is_folder(self, name: str = "") -> bool:
        """Whether there is a folder of the name."""

    def changed(self, name: str) -> float:
        """Return when a file was written, in seconds by the store's clock."""

    def size(self, name: str) -> int:
        """Return how many bytes a folder has."""

    def move(self, name: str, target: str) -> None:
        """Give a folder, that nobody else uses, another name."""

    def remove(self, name: str) -> None:
        """Remove a file, or a folder and all in it, as far as that can be done."""

    def settle(self, names: Iterable[str]) -> None:
        """See to it that folders of a table outlast a power loss, as far as the store lets us."""

    def check(self) -> None:
        """See to it that a warehouse can be written here.

        Raises:
            PipelineError: it cannot, or not by who does not say that there is no other writer.
        """

    def hold(self, mark: str, folders: Iterable[str]) -> Hold:
        """Hold folders, and all whose names end with the mark."""

    def held(self, now: float) -> Held | None:
        """Return what is held, and remove what those left who are gone; None if it is not known.

        Arguments:
            now: by the store's clock.
        """
