"""What is done with letters: what may be replayed, and that it is replayed once.

First all letters are looked at and it is decided what is to be done; then they are gone through
again, and those that it was decided of are found by what they are. In between somebody else may
have taken some, and others may have come: these are left alone.

All copies of a message are in hand before one of them is replayed. The others are removed first: if
the program is killed in between, one is left, and not one more than was replayed.
"""

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field

from celery_fair.letters.census import Census, Copies, Key, key_of
from celery_fair.letters.letter import Letter
from celery_fair.letters.letter_queue import GoneError, LetterQueue

__all__ = ["MAY_HAVE_STARTED", "Plan", "Report", "purge", "replay"]

MAY_HAVE_STARTED = "may have started; look at what it did, then --may-have-started"
_TAKEN = "it is not there any more: somebody else has taken it, or a copy of it; look again"


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
class Plan:
    """What is to be done.

    Attributes:
        todo: messages, by what their letters have in common.
        report: what cannot be done.
    """

    census: Census
    todo: dict[Key, Copies] = field(default_factory=dict)
    report: Report = field(default_factory=Report)

    def take(self, copies: Copies, may_have_started: bool) -> None:
        """Take a message in, or say why it cannot be replayed."""
        name = self.name(copies.key)
        if copies.problem:
            self.report.failed[name] = copies.problem
        elif copies.may_have_started and not may_have_started:
            if name not in self.report.refused:
                self.report.refused.append(name)
        else:
            self.todo[copies.key] = copies

    def take_all(self, messages: Iterable[Copies]) -> None:
        """Take messages in, whatever becomes of them: they are to be removed."""
        self.todo.update({copies.key: copies for copies in messages})

    def foresee(self, done: Callable[[Copies], int], duplicates: Callable[[Copies], int]) -> Report:
        """Return what would be reported; the functions say of how many copies of a message."""
        for key, copies in self.todo.items():
            self.report.done += [self.name(key)] * done(copies)
            self.report.duplicates += [self.name(key)] * duplicates(copies)
        return self.report

    def name(self, key: Key) -> str:
        """Return what to call a message."""
        return key.digest if self.census.ambiguous(key) else key.id

    def chosen(self) -> list[Copies]:
        """Return the messages that were asked for otherwise than by words."""
        return self.census.wanted()

    def pick(
        self, words: Iterable[str], spellings: Callable[[str], Iterable[str]]
    ) -> Iterable[Copies]:
        """Yield the messages that words name; report a word that does not name one."""
        for word in words:
            found = self.census.named(word, spellings)
            if len(found) == 1:
                yield found[0]
            elif found:
                digests = ", ".join(copies.key.digest for copies in found)
                self.report.failed[word] = (
                    f"{len(found)} different messages have this id; name one by its digest:"
                    f" {digests}"
                )
            else:
                self.report.failed[word] = "there is no such dead letter; list shows their ids"


Stop = Callable[[], bool]
Tick = Callable[[], object]


def replay(
    queue: LetterQueue,
    plan: Plan,
    *,
    forget: Callable[[str], object] = lambda _: None,
    stop: Stop = lambda: False,
    tick: Tick = lambda: None,
) -> Report:
    """Replay what is planned, each message once, and remove its copies.

    Arguments:
        forget: is given the key that a message is claimed by, if it has one, before the message is
            replayed.
        stop: asked before each letter whether to end here.
        tick: called after each message.
    """
    report = plan.report
    held: dict[Key, list[Letter]] = {key: [] for key in plan.todo}

    def act(letter: Letter, key: Key) -> bool:
        copies = held[key]
        copies.append(letter)
        if len(copies) < plan.todo[key].count:
            return False
        for claim in sorted({claim for each in copies if (claim := each.text("x-fair-key"))}):
            forget(claim)
        first, *others = copies
        for other in others:
            queue.remove(other)
            report.duplicates.append(plan.name(key))
        queue.replay(first)
        report.done.append(plan.name(key))
        return True

    return _go_through(queue, plan, act, stop, tick)


def purge(
    queue: LetterQueue,
    plan: Plan,
    wanted: Callable[[Letter], bool],
    *,
    stop: Stop = lambda: False,
    tick: Tick = lambda: None,
) -> Report:
    """Remove what is planned, of each message the letters that are wanted; as `replay`."""
    removed = dict.fromkeys(plan.todo, 0)

    def act(letter: Letter, key: Key) -> bool:
        if wanted(letter):
            queue.remove(letter)
            plan.report.done.append(plan.name(key))
            removed[key] += 1
        return removed[key] == plan.todo[key].wanted

    return _go_through(queue, plan, act, stop, tick)


def _go_through(
    queue: LetterQueue, plan: Plan, act: Callable[[Letter, Key], bool], stop: Stop, tick: Tick
) -> Report:
    left = dict(plan.todo)
    reason = _TAKEN
    try:
        with closing(queue.browse(lambda letter: key_of(letter) in left)) as letters:
            for letter in letters:
                if stop():
                    reason = "not tried: interrupted"
                    break
                key = key_of(letter)
                if key in left and _settled(queue, plan, act, letter, key):
                    del left[key]
                    tick()
                if not left:
                    break
    except Exception as exc:  # each transport has its own for a lost connection
        if not queue.is_lost(exc):
            raise
        reason = f"not tried, as the connection to the broker is of no more use: {_told(exc)}"
    for key in left:
        plan.report.failed.setdefault(plan.name(key), reason)
    return plan.report


def _settled(
    queue: LetterQueue, plan: Plan, act: Callable[[Letter, Key], bool], letter: Letter, key: Key
) -> bool:
    """Act; say whether no more is to be done with the message, be it because of an error."""
    try:
        return act(letter, key)
    except Exception as exc:  # one letter's trouble is not the others'
        plan.report.failed[plan.name(key)] = _told(exc)
        if queue.is_lost(exc):
            raise
        return True


def _told(error: Exception) -> str:
    return _TAKEN if isinstance(error, GoneError) else str(error) or type(error).__name__
