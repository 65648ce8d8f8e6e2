"""What can be done with the dead-letter queue, whatever the broker."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from typing import Any

from celery_fair.dead_letters.letter import Letter

Keep = Callable[[Letter], bool]
Letters = Generator[Letter, None, None]


def nothing(_: Letter) -> bool:
    """Keep none."""
    return False


class ReplayError(Exception):
    """A letter was not replayed, or is still there though it was; the message says which."""


class GoneError(Exception):
    """Somebody else has taken the letter meanwhile."""


class LetterQueue(ABC):
    """The dead letters of an app, in their order.

    A letter can be replayed or removed while `browse` has not ended; the others stay what they are
    and where they are, even if the program is killed.

    Arguments:
        connection: kombu's, connected.
        name: the queue's.
        exchanges: the app's, by name.
    """

    def __init__(self, connection: Any, name: str, exchanges: Mapping[str, Any]) -> None:
        self._connection = connection
        self._name = name
        self._exchanges = exchanges

    @abstractmethod
    def count(self) -> int:
        """Return how many letters there are; 0 if there is no such queue."""

    @abstractmethod
    def browse(self, keep: Keep = nothing) -> Letters:
        """Yield the letters that are there now, the oldest first; close it (`contextlib.closing`).

        Arguments:
            keep: says of which letters something may be done until the end; of the others, nothing.
        """

    def hold(self, letter: Letter) -> Letter:
        """Let nobody else replay it, where `browse` has not seen to that; return it as it is now.

        Raises:
            GoneError: somebody has, or has removed it.
        """
        return letter

    @abstractmethod
    def replay(self, letter: Letter) -> None:
        """Publish it to where it was, as a fresh message, and then remove it.

        Raises:
            ReplayError: nothing would get it there, or it could not be removed.
            GoneError: it is not there any more.
            Exception: whatever the transport does.
        """

    @abstractmethod
    def remove(self, letter: Letter) -> None:
        """Remove it for good.

        Raises:
            GoneError: if it is not there any more.
        """

    @abstractmethod
    def is_lost(self, error: Exception) -> bool:
        """Whether an error means that the connection is of no more use."""
