"""Which letters there are, and which of them are the same message.

A worker that was killed in the middle of a move on RabbitMQ leaves the same message as two letters.
*Copies* are letters with the same task id and the same content. Letters with the same task id and
other content are different messages.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from celery_fair.letters.letter import Letter
from celery_fair.letters.letter_queue import LetterQueue

__all__ = ["Census", "Copies", "Key", "key_of"]


class Key(NamedTuple):
    """What copies of a message have in common."""

    id: str
    digest: str


def key_of(letter: Letter) -> Key:
    """Return what a letter has in common with its copies."""
    return Key(letter.id, letter.digest)


@dataclass
class Copies:
    """All letters of one message.

    Attributes:
        count: how many there are.
        wanted: how many of them were asked for.
        may_have_started: whether any of them says so, or does not say.
        problem: why they cannot be replayed.
    """

    key: Key
    count: int = 0
    wanted: int = 0
    may_have_started: bool = False
    problem: str | None = None


class Census:
    """All letters, seen once.

    Attributes:
        copies: by what they have in common, in the order of the queue.
    """

    def __init__(self) -> None:
        self.copies: dict[Key, Copies] = {}
        self._messages: Counter[str] = Counter()

    @classmethod
    def of(cls, queue: LetterQueue, wanted: Callable[[Letter], bool]) -> "Census":
        """Look at all letters of a queue."""
        census = cls()
        with closing(queue.browse()) as letters:
            for letter in letters:
                census.add(letter, wanted(letter))
        return census

    def add(self, letter: Letter, wanted: bool) -> None:
        """Take in a letter."""
        key = key_of(letter)
        if key not in self.copies:
            self.copies[key] = Copies(key)
            self._messages[key.id] += 1
        copies = self.copies[key]
        copies.count += 1
        copies.wanted += wanted
        copies.may_have_started |= letter.may_have_started is not False
        copies.problem = copies.problem or _problem(letter)

    def ambiguous(self, key: Key) -> bool:
        """Whether there are different messages of this id."""
        return self._messages[key.id] > 1

    def wanted(self) -> list[Copies]:
        """Return the messages of which a letter was asked for."""
        return [copies for copies in self.copies.values() if copies.wanted]

    def named(self, word: str, spellings: Callable[[str], Iterable[str]]) -> list[Copies]:
        """Return the messages that a word names, by their id or their digest.

        Arguments:
            spellings: returns how an id may be written.
        """
        return [
            copies
            for key, copies in self.copies.items()
            if word == key.digest or word in spellings(key.id)
        ]


def _problem(letter: Letter) -> str | None:
    if letter.problem:
        return f"{letter.problem}; it can only be purged"
    try:
        letter.origin  # noqa: B018
    except ValueError as exc:
        return f"{exc}; publish the task anew, and purge this"
    return None
