"""Replaying and purging what is planned, each message once.

Between the plan and this somebody else may have taken some letters, and others may have come: these
are left alone. Those that the plan is about are found by what they are.

All copies of a message are in hand before one of them is replayed. The others are removed first: if
the program is killed in between, one is left, and not one more than was replayed.
"""

from collections import defaultdict
from collections.abc import Callable
from contextlib import closing

from celery_fair.dead_letters.letter import Letter
from celery_fair.dead_letters.letter_queue import GoneError, LetterQueue
from celery_fair.dead_letters.plan import Plan, Report
from celery_fair.headers import CLAIM

_TAKEN = "it is not there any more: somebody else has taken it, or a copy of it; look again"

Stop = Callable[[], bool]
Tick = Callable[[int], object]


def replay(
    queue: LetterQueue,
    plan: Plan,
    *,
    forget: Callable[[str, str], object] = lambda claim, id_: None,
    stop: Stop = lambda: False,
    tick: Tick = lambda _: None,
) -> Report:
    """Replay what is planned, each message once, and remove its copies.

    Arguments:
        forget: is given the key that a message is claimed by, if it has one, and the message's id,
            before the message is replayed.
        stop: asked before each letter whether to end here.
        tick: told after each message, that it is one more.
    """
    held: dict[str, list[Letter]] = defaultdict(list)

    def act(letter: Letter) -> bool:
        name, copies = plan.name(letter.digest), held[letter.digest]
        copies.append(letter)
        if len(copies) < plan.todo[letter.digest].count:
            return False
        first, *others = held.pop(letter.digest)
        if claims := {claim for each in copies if (claim := each.text(CLAIM))}:
            first = queue.hold(first)  # or they may be of what somebody else has just replayed
        for claim in sorted(claims):
            forget(claim, letter.id)
        for other in others:
            queue.remove(other)
            plan.report.duplicates.append(name)
        try:
            queue.replay(first)
            plan.report.done.append(name)
        finally:
            tick(1)
        return True

    return _go_through(queue, plan, act, stop)


def purge(
    queue: LetterQueue,
    plan: Plan,
    wanted: Callable[[Letter], bool],
    *,
    stop: Stop = lambda: False,
    tick: Tick = lambda _: None,
) -> Report:
    """Remove what is planned, of each message the letters that are wanted; as `replay`."""
    left = {digest: copies.wanted for digest, copies in plan.todo.items()}

    def act(letter: Letter) -> bool:
        if wanted(letter):
            queue.remove(letter)
            plan.report.done.append(plan.name(letter.digest))
            left[letter.digest] -= 1
        if not left[letter.digest]:
            tick(1)
        return not left[letter.digest]

    return _go_through(queue, plan, act, stop)


def _go_through(
    queue: LetterQueue, plan: Plan, act: Callable[[Letter], bool], stop: Stop
) -> Report:
    """Act on each letter that is planned, until no more is to be done with its message."""
    left, reason = set(plan.todo), _TAKEN
    try:
        with closing(queue.browse(lambda letter: letter.digest in left)) as letters:
            for letter in letters if left else ():
                if stop():
                    reason = "not tried: interrupted"
                    break
                if letter.digest in left and _ended(queue, plan, act, letter):
                    left.remove(letter.digest)
                if not left:
                    break
    except Exception as exc:  # each transport has its own for a lost connection
        if not queue.is_lost(exc):
            raise
        reason = f"not tried, as the connection to the broker is of no more use: {_told(exc)}"
    for digest in [digest for digest in plan.todo if digest in left]:
        plan.report.failed.setdefault(plan.name(digest), reason)
    return plan.report


def _ended(queue: LetterQueue, plan: Plan, act: Callable[[Letter], bool], letter: Letter) -> bool:
    try:
        return act(letter)
    except Exception as exc:  # one letter's trouble is not the others'
        if queue.is_lost(exc):
            plan.report.failed.setdefault(plan.name(letter.digest), _told(exc))
            raise
        plan.report.failed[plan.name(letter.digest)] = _told(exc)
        return True


def _told(error: Exception) -> str:
    return _TAKEN if isinstance(error, GoneError) else str(error) or type(error).__name__
