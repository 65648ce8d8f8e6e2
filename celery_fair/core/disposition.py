"""What becomes of a message whose turn has come: one table.

A *disposition* (AMQP's word) is a delivery's outcome. It depends on what is known of the delivery
and on what the task promises:

*fresh*: the broker says that nobody was given the message before. *redelivered*: somebody was, and
may have started it; that nobody did cannot be told from here.

*repeatable*: Celery's ordinary tasks, which may start twice. *before*: a task that starts at most
once, acknowledged before it starts, so that a crash loses it. *after*: one that starts at most once
and is acknowledged when it has ended, so that a crash leaves it at the broker, whose next delivery
is a redelivery.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

__all__ = ["TABLE", "Action", "Delivery", "Policy", "disposition"]


class Delivery(Enum):
    """What is known of a delivery."""

    FRESH = "fresh"
    REDELIVERED = "redelivered"


class Policy(Enum):
    """What a task promises."""

    REPEATABLE = "repeatable"
    BEFORE = "before"
    AFTER = "after"


class Action(Enum):
    """What to do with the message."""

    RUN = "run"
    ACKNOWLEDGE_THEN_RUN = "acknowledge, then run"
    DEAD_LETTER = "dead-letter"


TABLE: Mapping[tuple[Delivery, Policy], Action] = MappingProxyType(
    {
        (Delivery.FRESH, Policy.REPEATABLE): Action.RUN,
        (Delivery.REDELIVERED, Policy.REPEATABLE): Action.RUN,
        (Delivery.FRESH, Policy.BEFORE): Action.ACKNOWLEDGE_THEN_RUN,
        (Delivery.REDELIVERED, Policy.BEFORE): Action.DEAD_LETTER,
        (Delivery.FRESH, Policy.AFTER): Action.RUN,
        (Delivery.REDELIVERED, Policy.AFTER): Action.DEAD_LETTER,
    }
)


def disposition(redelivered: bool, policy: Policy) -> Action:
    """Look it up."""
    return TABLE[Delivery.REDELIVERED if redelivered else Delivery.FRESH, policy]
