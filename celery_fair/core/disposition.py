"""What becomes of a message whose turn has come: one table.

A *disposition* (AMQP's word) is a delivery's outcome. It depends on what is known of the delivery
and on what the task promises. Without a ledger two states are told apart, by the broker's word; a
ledger knows more.

Messages that cannot start anyway are not in the table: Celery itself acknowledges those that have
expired or were revoked, and no task can be made of one that is unreadable.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

SKEW = 5.0
"""Seconds by which the clocks of publishers and ledger may differ."""


class _Fact(Enum):
    """Hashed as the one object that it is; Python's enums hash their names, anew each time."""

    __hash__ = object.__hash__


class Delivery(_Fact):
    """What is known of a delivery."""

    FRESH = "fresh"
    REDELIVERED = "redelivered"
    UNSTARTED = "redelivered, provably unstarted"
    CLAIMED = "claimed by another delivery"
    UNKNOWN = "fresh, not to be claimed"

    @property
    def meaning(self) -> str:
        """In a sentence."""
        return _MEANINGS[self]


_MEANINGS = {
    Delivery.FRESH: "according to the broker, nobody was given the message before",
    Delivery.REDELIVERED: "somebody was, and may have started it",
    Delivery.UNSTARTED: "somebody was, but the ledger has no claim, as it would if it had started",
    Delivery.CLAIMED: "the ledger says that its work was claimed, so it may have started",
    Delivery.UNKNOWN: "the ledger that others may ask about it does not answer, or is not this"
    " worker's",
}


class Policy(_Fact):
    """What a task promises."""

    REPEATABLE = "repeatable"
    """Celery's ordinary tasks, which may start twice."""
    BEFORE = "before"
    """At most once, acknowledged before it starts, so that a crash loses it."""
    AFTER = "after"
    """At most once, acknowledged when it has ended, so that a crash leaves it at the broker."""


class Action(Enum):
    """What to do with the message."""

    RUN = "run"
    ACKNOWLEDGE_THEN_RUN = "acknowledge, then run"
    DEAD_LETTER = "dead-letter"
    MARK = "give back, marked"
    """Back to its queue, with a mark that says not to ask the ledger about it any more."""


def _table() -> dict[tuple[Delivery, Policy], Action]:
    run, mark, dead = Action.RUN, Action.MARK, Action.DEAD_LETTER
    confirmed = Action.ACKNOWLEDGE_THEN_RUN
    rows = {  # repeatable, before, after
        Delivery.FRESH: (run, confirmed, run),
        Delivery.REDELIVERED: (run, dead, dead),
        Delivery.UNSTARTED: (run, confirmed, run),
        Delivery.CLAIMED: (run, dead, dead),
        Delivery.UNKNOWN: (run, mark, mark),
    }
    return {
        (delivery, policy): action
        for delivery, actions in rows.items()
        for policy, action in zip(Policy, actions, strict=True)
    }


TABLE: Mapping[tuple[Delivery, Policy], Action] = MappingProxyType(_table())


def disposition(delivery: Delivery, policy: Policy) -> Action:
    """Look it up."""
    return TABLE[delivery, policy]


def proves_unstarted(
    published: object, since: float | None, epoch: float, now: float, expiry: float
) -> bool:
    """Say whether work that a ledger has no claim for has not been started.

    If every start is claimed beforehand, work without a claim has not started, unless the claim was
    forgotten: because the message is older than what the ledger remembers, or of unknown age. No
    worker can know of the others whether they claim; whoever runs them says since when.

    Arguments:
        published: when the message was published, in seconds since 1970, as its header says.
        since: from when on no start was without a claim; None: nobody says so.
        epoch: since when the ledger has lost nothing.
        now: the ledger's time.
        expiry: seconds after which it forgets a claim.
    """
    if since is None or isinstance(published, bool) or not isinstance(published, int | float):
        return False
    remembered = max(since, epoch, now - expiry)
    return remembered + SKEW <= published <= now + SKEW
