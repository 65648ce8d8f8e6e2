"""What can be done with the dead-letter queue, whatever the broker."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from celery_fair.dead_letters.letter import Letter

Keep = Callable[[Letter], bool]
Letters = Generator[Letter, None, None]
Result = Exception | None
"""What went wrong, if anything did."""


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

    Attributes:
        at_once: how many letters are best replayed with one call.
    """

    at_once = 1

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

    @abstractmethod
    def replay(self, letters: Sequence[Letter]) -> list[Result]:
        """Publish each to where it was, as a fresh message, and then remove it.

        Returns:
            In the order of the letters what went wrong: a `ReplayError`, as nothing would get it
            there, or if it could not be removed; a `GoneError` if it is not there any more; or
            whatever the transport raises.
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


class OneByOne(LetterQueue):
    """Of a broker that replays a letter with each call."""

    def replay(self, letters: Sequence[Letter]) -> list[Result]:
        return [self._result_of(letter) for letter in letters]

    def _result_of(self, letter: Letter) -> Result:
        try:
            self._replay(letter)
        except Exception as exc:  # noqa: BLE001 - one letter's trouble is not the others'
            return exc
        return None

    @abstractmethod
    def _replay(self, letter: Letter) -> None:
        """Replay one, or raise what `replay` returns."""
