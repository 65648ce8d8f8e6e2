"""What is to be done with which dead letters, and what became of them.

A worker that was killed in the middle of a move on RabbitMQ leaves the same message as two letters.
Letters of one digest are *copies*; those of one task id and different digests are different
messages.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from contextlib import closing
from dataclasses import dataclass, field

from celery_fair.dead_letters.letter import Letter
from celery_fair.dead_letters.letter_queue import LetterQueue

MAY_HAVE_STARTED = "may have started; look at what it did, then --may-have-started"


@dataclass
class Report:
    """What became of the letters; each by its id, or its digest if the id names several.

    Attributes:
        done: replayed, or purged.
        refused: not replayed, as they may have started.
        failed: what went wrong.
        duplicates: copies that were removed.
    """

    done: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    duplicates: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether all was done that was asked for."""
        return not self.refused and not self.failed


@dataclass
class Copies:
    """All letters of one message.

    Attributes:
        count: how many there are.
        wanted: how many of them were asked for.
        may_have_started: whether any of them says so, or does not say.
        problem: why they cannot be replayed.
    """

    id: str
    digest: str
    count: int = 0
    wanted: int = 0
    may_have_started: bool = False
    problem: str | None = None

    def add(self, letter: Letter, wanted: bool) -> None:
        """Take in another letter."""
        self.count += 1
        self.wanted += wanted
        self.may_have_started |= letter.may_have_started is not False
        self.problem = self.problem or _problem(letter)


class Plan:
    """Made by a look at all letters of a queue.

    Arguments:
        wanted: says of a letter whether it was asked for.

    Attributes:
        todo: the messages of which something is to be done, by their digests.
        report: what cannot be done.
    """

    def __init__(self, queue: LetterQueue, wanted: Callable[[Letter], bool]) -> None:
        self.todo: dict[str, Copies] = {}
        self.report = Report()
        self._found: dict[str, Copies] = {}
        with closing(queue.browse()) as letters:
            for letter in letters:
                copies = self._found.setdefault(letter.digest, Copies(letter.id, letter.digest))
                copies.add(letter, wanted(letter))
        self._messages = Counter(copies.id for copies in self._found.values())

    def wanted(self) -> list[Copies]:
        """Return the messages of which a letter was asked for."""
        return [copies for copies in self._found.values() if copies.wanted]

    def named(
        self, words: Iterable[str], names_of: Callable[[Copies], Collection[str]]
    ) -> list[Copies]:
        """Return the messages that words name; report a word that does not name one."""
        messages = defaultdict(list)
        for copies in self._found.values():
            for name in names_of(copies):
                messages[name].append(copies)
        named = []
        for word in words:
            found = messages[word]
            if len(found) == 1:
                named += found
            elif found:
                self.report.failed[word] = (
                    f"{len(found)} different messages have this id; name one by its digest:"
                    f" {', '.join(copies.digest for copies in found)}"
                )
            else:
                self.report.failed[word] = "there is no such dead letter; list shows their ids"
        return named

    def replay(self, copies: Copies, may_have_started: bool) -> None:
        """Have a message replayed, or say why it cannot be."""
        name = self.name(copies.digest)
        if copies.problem:
            self.report.failed[name] = copies.problem
        elif copies.may_have_started and not may_have_started:
            if name not in self.report.refused:
                self.report.refused.append(name)
        else:
            self.todo[copies.digest] = copies

    def foresee(self, done: Callable[[Copies], int], duplicates: Callable[[Copies], int]) -> Report:
        """Return what would be reported; the functions say of how many copies of a message."""
        for digest, copies in self.todo.items():
            self.report.done += [self.name(digest)] * done(copies)
            self.report.duplicates += [self.name(digest)] * duplicates(copies)
        return self.report

    def name(self, digest: str) -> str:
        """Return what to call a message."""
        id_ = self._found[digest].id
        return digest if self._messages[id_] > 1 else id_


def _problem(letter: Letter) -> str | None:
    if letter.problem:
        return f"{letter.problem}; it can only be purged"
    try:
        letter.origin  # noqa: B018
    except ValueError as exc:
        return f"{exc}; publish the task anew, and purge this"
    return None
